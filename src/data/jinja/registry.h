// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "data/jinja/arguments.h"
#include "data/jinja/session.h"
#include "data/jinja/value.h"

namespace duoka::data::jinja {

// What templates can call, by name. Everything throws Fault where Python raises.

using Filter = Value (*)(Session&, const Value& operand, const Arguments&);
using Test = bool (*)(Session&, const Value& operand, const Arguments&);
using Global = Value (*)(Session&, const Arguments&);

/// Null for an unknown name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
Global find_global(std::string_view name);

/// "unknown filter 'x'", with the nearest known name where one is near.
std::string unknown_filter(const std::string& name);
std::string unknown_test(const std::string& name);

/// value.name, Jinja's way: methods first, then items; undefined where there is neither, or where the
/// sandbox forbids it (changing a list, names that begin with "__").
Value get_attribute(Session& session, const Value& value, std::string_view name);
/// value[key], Jinja's way: items first, then attributes.
Value get_subscript(Session& session, const Value& value, const Value& key);
/// self.name(arguments) for a method get_attribute() gave.
Value call_method(Session& session, const Value& self, const std::string& name, const Arguments& arguments);

}  // namespace duoka::data::jinja
