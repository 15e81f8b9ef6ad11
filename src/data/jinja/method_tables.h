// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "data/jinja/arguments.h"
#include "data/jinja/operators.h"
#include "data/jinja/session.h"

namespace duoka::data::jinja {

using Method = Value (*)(Session&, const Value& self, const Arguments&);
using NamedMethod = std::pair<std::string_view, Method>;

/// Methods of strings that look for something: find, count, startswith, partition and the like.
std::span<const NamedMethod> search_methods();
/// isdigit and its kin, and those that pad: ljust, zfill.
std::span<const NamedMethod> check_methods();

/// The argument's text; throws Fault "what needs a string" for another type or none.
const Text& string_argument(std::string_view what, const std::optional<Value>& value);

}  // namespace duoka::data::jinja
