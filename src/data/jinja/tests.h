// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "data/jinja/registry.h"

namespace duoka::data::jinja {

/// Jinja's tests: `value is name`.
std::span<const std::pair<std::string_view, Test>> all_tests();

}  // namespace duoka::data::jinja
