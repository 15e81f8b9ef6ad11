// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "data/jinja/session.h"
#include "data/jinja/value.h"

namespace duoka::data::jinja {

// Python's operators on values. All throw Fault where Python raises.

enum class BinaryOp { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class CompareOp { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

/// Throws the Fault that using an undefined `value` is.
[[noreturn]] void fail_undefined(const Value& value);

bool is_true(const Value& value);
Value binary(Session& session, BinaryOp op, const Value& a, const Value& b);
Value negate(const Value& value);
bool compare(Session& session, CompareOp op, const Value& a, const Value& b);
bool is_equal(Session& session, const Value& a, const Value& b);
bool is_less(Session& session, const Value& a, const Value& b);
bool contains(Session& session, const Value& whole, const Value& part);

/// Items a for loop walks: of a list, the keys of a dict, the characters of a string. Undefined and null
/// content have none.
Values iterate(Session& session, const Value& value);
/// len(); of a string in characters.
int64_t length(Session& session, const Value& value);

/// whole[key], or undefined where Python raises IndexError or KeyError (Jinja's way). Does not look for
/// attributes.
std::optional<Value> find_item(Session& session, const Value& whole, const Value& key);
/// whole[start:stop:step]; absent or none: Python's defaults.
Value slice(Session& session, const Value& whole, const Value& start, const Value& stop, const Value& step);

/// The value as a whole number or a float, null where it is no number (True counts as 1).
std::optional<int64_t> int_of(const Value& value);
std::optional<double> double_of(const Value& value);
/// The text itself; null content is the empty text; null for all else.
const Text* text_of(const Value& value);

}  // namespace duoka::data::jinja
