// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/numbers.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

namespace duoka::data::jinja {
namespace {

bool is_alnum(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Without underscores; null where one is not between two digits.
std::optional<std::string> without_underscores(std::string_view digits) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') {
      out += digits[i];
    } else if (i == 0 || i + 1 == digits.size() || !is_alnum(digits[i - 1]) || !is_alnum(digits[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

/// Takes a sign off; true for '-'.
bool take_sign(std::string_view& digits) {
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.remove_prefix(1);
  return is_negative;
}

bool take_prefix(std::string_view& digits, int base) {
  const char wanted = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : '\0';
  const bool is_there = wanted && digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == wanted;
  if (is_there) digits.remove_prefix(2);
  return is_there;
}

}  // namespace

std::optional<int64_t> read_int(std::string_view digits, int base) {
  const bool is_negative = take_sign(digits);
  // Python allows an underscore behind the prefix: 0x_f.
  if (take_prefix(digits, base) && digits.starts_with('_')) digits.remove_prefix(1);
  const auto plain = without_underscores(digits);
  if (!plain || plain->empty() || !is_alnum(plain->front())) return std::nullopt;
  const std::string text = (is_negative ? "-" : "") + *plain;
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, base);
  return read.ec == std::errc{} && read.ptr == end ? std::optional(value) : std::nullopt;
}

std::optional<double> read_float(std::string_view digits) {
  const bool is_negative = take_sign(digits);
  const auto plain = without_underscores(digits);
  // The letters are those of inf and nan; from_chars would also take "nan(…)".
  if (!plain || plain->empty() || plain->starts_with('-') || plain->find('(') != std::string::npos) {
    return std::nullopt;
  }
  double value = 0;
  const char* end = plain->data() + plain->size();
  const auto read = std::from_chars(plain->data(), end, value);
  if (read.ptr != end) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) {
    const bool is_small = plain->find('-') != std::string::npos || plain->starts_with("0.");
    value = is_small ? 0.0 : std::numeric_limits<double>::infinity();
  } else if (read.ec != std::errc{}) {
    return std::nullopt;
  }
  return is_negative ? -value : value;
}

std::partial_ordering compare_exactly(int64_t a, double b) {
  constexpr double limit = 9223372036854775808.0;
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= limit) return std::partial_ordering::less;
  if (b < -limit) return std::partial_ordering::greater;
  const double whole = std::floor(b);
  const auto order = a <=> static_cast<int64_t>(whole);
  return std::is_eq(order) && b > whole ? std::partial_ordering::less : std::partial_ordering(order);
}

}  // namespace duoka::data::jinja
