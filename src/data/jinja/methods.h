// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "data/jinja/value.h"

namespace duoka::data::jinja {

/// Whether the type of `value` has a method of this name that a template may call.
bool has_method(const Value& value, std::string_view name);

}  // namespace duoka::data::jinja
