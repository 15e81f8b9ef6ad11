// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace duoka {

/// A sum of doubles that does not depend on the order, nor on how it was divided among ranks: every addend
/// goes unrounded into a fixed-point number as wide as the range of a double; value() rounds once. Source:
/// Kulisch, "Very fast and exact accumulation of products", Computing 91 (2011).
class ExactSum {
 public:
  /// 32 bits each, from 2^-1074 up; the last holds counts of addends that are not finite.
  static constexpr int num_digits = 67;

  void add(double value);
  void add(const ExactSum& other);
  /// The sum, rounded to the nearest double; not a number when an addend was not finite.
  double value() const;

  /// Digits to add up over at most 2^30 ranks, as 64-bit integers, in place.
  std::array<int64_t, num_digits>& digits();

 private:
  void carry();

  std::array<int64_t, num_digits> digits_{};
  int64_t num_added_ = 0;  // since the last carry()
};

}  // namespace duoka
