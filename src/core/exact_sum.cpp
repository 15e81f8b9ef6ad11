// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/exact_sum.h"

#include <cmath>
#include <limits>

namespace duoka {

namespace {
__extension__ using Wide = unsigned __int128;
constexpr int lowest_exponent = -1074;
constexpr int digit_bits = 32;
constexpr int64_t base = int64_t{1} << digit_bits;
constexpr size_t not_finite = ExactSum::num_digits - 1;
/// A digit takes less than 2^32 from one addend.
constexpr int64_t most_added = int64_t{1} << 30;
}  // namespace

void ExactSum::add(double value) {
  if (!std::isfinite(value)) {
    ++digits_[not_finite];
    return;
  }
  if (value == 0) return;
  int exponent = 0;
  // value = mantissa * 2^(exponent - 53), mantissa a whole number below 2^53.
  auto mantissa = static_cast<uint64_t>(std::ldexp(std::frexp(std::fabs(value), &exponent), 53));
  int place = exponent - 53 - lowest_exponent;
  if (place < 0) {  // subnormal: the low bits are zero
    mantissa >>= -place;
    place = 0;
  }
  const auto wide = static_cast<Wide>(mantissa) << (place % digit_bits);
  auto digit = static_cast<size_t>(place / digit_bits);
  for (Wide rest = wide; rest != 0; rest >>= digit_bits, ++digit) {
    const auto part = static_cast<int64_t>(rest & static_cast<Wide>(base - 1));
    digits_[digit] += value < 0 ? -part : part;
  }
  if (++num_added_ >= most_added) carry();
}

void ExactSum::add(const ExactSum& other) {
  carry();
  for (size_t i = 0; i < digits_.size(); ++i) digits_[i] += other.digits_[i];
  carry();
}

/// Brings all digits but the highest into [0, 2^32).
void ExactSum::carry() {
  for (size_t i = 0; i + 1 < not_finite; ++i) {
    const int64_t over = digits_[i] >> digit_bits;  // rounds down, also below zero
    digits_[i] -= over * base;
    digits_[i + 1] += over;
  }
  num_added_ = 0;
}

std::array<int64_t, ExactSum::num_digits>& ExactSum::digits() {
  carry();
  return digits_;
}

double ExactSum::value() const {
  if (digits_[not_finite] != 0) return std::numeric_limits<double>::quiet_NaN();
  ExactSum sum = *this;
  sum.carry();
  const bool is_negative = sum.digits_[not_finite - 1] < 0;
  if (is_negative) {
    for (auto& digit : sum.digits_) digit = -digit;
    sum.carry();
  }
  // The three highest digits that are not zero hold at least 65 bits; what is below only decides a tie, so
  // one bit stands for it.
  int top = static_cast<int>(not_finite) - 1;
  while (top > 0 && sum.digits_[static_cast<size_t>(top)] == 0) --top;
  const int lowest = top < 2 ? 0 : top - 2;
  Wide high = 0;
  for (int i = top; i >= lowest; --i)
    high = (high << digit_bits) | static_cast<Wide>(sum.digits_[static_cast<size_t>(i)]);
  bool has_rest = false;
  for (int i = 0; i < lowest; ++i) has_rest = has_rest || sum.digits_[static_cast<size_t>(i)] != 0;

  int num_bits = 0;
  while (num_bits < 128 && (high >> num_bits) != 0) ++num_bits;
  int shift = 0;
  if (num_bits > 62) {  // keep 62 bits and one that says whether anything was cut off
    shift = num_bits - 62;
    has_rest = has_rest || (high & ((static_cast<Wide>(1) << shift) - 1)) != 0;
    high >>= shift;
  }
  const auto kept = (static_cast<uint64_t>(high) << 1) | (has_rest ? 1u : 0u);
  const double rounded =
      std::ldexp(static_cast<double>(kept), shift - 1 + lowest * digit_bits + lowest_exponent);
  return is_negative ? -rounded : rounded;
}

}  // namespace duoka
