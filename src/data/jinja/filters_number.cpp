// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>

#include "data/jinja/filters.h"
#include "data/jinja/numbers.h"
#include "data/jinja/operators.h"
#include "data/jinja/strings.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

std::optional<int64_t> truncated(double value) {
  if (!(std::abs(value) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(std::trunc(value));
}

Value to_int(Session&, const Value& operand, const Arguments& args) {
  const auto bound = bind("int", args, {"default", "base"});
  const int64_t base = bound[1] ? int_argument("int", *bound[1]) : 10;
  if (base < 2 || base > 36) throw Fault{text("int with base ", base, "; 2 to 36 are possible")};
  if (operand.is_undefined()) fail_undefined(operand);
  std::optional<int64_t> result = int_of(operand);
  if (const Text* held = operand.as_text()) {
    const Text digits = strip(*held, Side::both);
    result = read_int(digits.view(), static_cast<int>(base));
    if (const auto number = result ? std::nullopt : read_float(digits.view())) result = truncated(*number);
  } else if (const double* held_double = operand.as_double()) {
    result = truncated(*held_double);
  }
  return result ? Value(*result) : bound[0].value_or(Value(0));
}

Value to_float(Session&, const Value& operand, const Arguments& args) {
  const auto bound = bind("float", args, {"default"});
  if (operand.is_undefined()) fail_undefined(operand);
  std::optional<double> result = double_of(operand);
  if (const Text* held = operand.as_text()) result = read_float(strip(*held, Side::both).view());
  return result ? Value(*result) : bound[0].value_or(Value(0.0));
}

Value abs_filter(Session&, const Value& operand, const Arguments& args) {
  bind("abs", args, {});
  if (const auto whole = int_of(operand)) return *whole < 0 ? negate(operand) : Value(*whole);
  if (const double* held = operand.as_double()) return std::abs(*held);
  throw Fault{text("abs of a value of type ", type_name(operand))};
}

/// Python's round(): to even, judged by the decimal digits of the exact value.
double round_half_even(double value, int digits) {
  if (digits < 0 || std::abs(value) > 1e15) {
    const double scale = std::pow(10.0, digits);
    return std::nearbyint(value * scale) / scale;
  }
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, digits).ptr;
  double rounded = value;
  std::from_chars(buffer, end, rounded);
  return rounded;
}

/// Python's round() of a whole number to tens, hundreds, …: halves to even.
Value round_int(int64_t value, int64_t digits) {
  // The largest power of ten that fits is 10 to the 18.
  if (digits < -18) return 0;
  int64_t unit = 1;
  for (int64_t i = 0; i > digits; --i) unit *= 10;
  int64_t quotient = value / unit;
  const int64_t rest = std::abs(value % unit);
  const bool is_up = rest > unit - rest || (rest == unit - rest && quotient % 2 != 0);
  if (is_up) quotient += value < 0 ? -1 : 1;
  int64_t result = 0;
  if (__builtin_mul_overflow(quotient, unit, &result))
    throw Fault{"the result of round does not fit into 64 bits"};
  return result;
}

Value round_filter(Session& session, const Value& operand, const Arguments& args) {
  constexpr int64_t max_digits = 20;
  const auto bound = bind("round", args, {"precision", "method"});
  const int64_t digits = bound[0] ? int_argument("round", *bound[0]) : 0;
  if (digits < -max_digits || digits > max_digits)
    throw Fault{text("round to ", digits, " digits; 20 at most")};
  const auto number = double_of(operand);
  if (!number) throw Fault{text("round of a value of type ", type_name(operand))};
  const Value method = bound[1].value_or(Value("common"));
  if (is_equal(session, method, Value("common"))) {
    if (const auto whole = int_of(operand)) return round_int(*whole, digits);
    return round_half_even(*number, static_cast<int>(digits));
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (is_equal(session, method, Value("ceil"))) return std::ceil(*number * scale) / scale;
  if (is_equal(session, method, Value("floor"))) return std::floor(*number * scale) / scale;
  throw Fault{"round's method is 'common', 'ceil' or 'floor'"};
}

}  // namespace

std::span<const NamedFilter> number_filters() {
  static constexpr NamedFilter filters[] = {
      {"int", to_int}, {"float", to_float}, {"abs", abs_filter}, {"round", round_filter}};
  return filters;
}

}  // namespace duoka::data::jinja
