// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace duoka::data::jinja {

// Numbers as Python reads them from text. Only ASCII digits; blanks around are the caller's.

/// int(digits, base): a sign, the base's prefix ("0x", "0o", "0b"), single underscores between digits. Null
/// for anything else, and for what does not fit into 64 bits.
std::optional<int64_t> read_int(std::string_view digits, int base);

/// float(digits), "inf", "infinity" and "nan" included. Too large gives infinity, too small 0.
std::optional<double> read_float(std::string_view digits);

/// Exact, where turning `a` into a double would round it. Unordered for nan.
std::partial_ordering compare_exactly(int64_t a, double b);

}  // namespace duoka::data::jinja
