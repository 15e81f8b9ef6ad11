// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace duoka {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

TEST(ExactSum, RoundsOnce) {
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({1.5, -0.25}), 1.25);
  EXPECT_EQ(sum_of({-3, -4}), -7);
  EXPECT_EQ(sum_of({1e100, 1, -1e100}), 1);
  EXPECT_EQ(sum_of({1e308, 1e308, -1e308, -1e308, 5e-324}), 5e-324);
  EXPECT_EQ(sum_of({1, -1}), 0);
  EXPECT_EQ(sum_of({5e-324, 5e-324, -1.5e-323}), -5e-324);
  // Halfway between two doubles goes to the even one; the smallest bit beyond it decides.
  const double half = std::ldexp(1.0, -53), tiny = std::ldexp(1.0, -1000);
  EXPECT_EQ(sum_of({1, half}), 1);
  EXPECT_EQ(sum_of({1, half, tiny}), std::nextafter(1.0, 2.0));
  EXPECT_EQ(sum_of({-1, -half, -tiny}), std::nextafter(-1.0, -2.0));
}

TEST(ExactSum, EqualsLongDoubleWhereThatIsExact) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    long double wanted = 0;
    std::vector<double> values;
    for (int i = 0; i < 100; ++i) {
      const double value = std::ldexp(static_cast<double>(random() >> 44) - (1 << 19), round % 30);
      values.push_back(value);
      wanted += value;  // 20 bits each, 100 of them: 64 bits hold it
    }
    EXPECT_EQ(sum_of(values), static_cast<double>(wanted));
  }
}

TEST(ExactSum, DoesNotDependOnOrderOrDivision) {
  std::mt19937_64 random(5);
  std::vector<double> values;
  for (int i = 0; i < 3000; ++i)
    values.push_back(std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 400) - 200) *
                     (random() % 2 == 0 ? 1 : -1));
  const double wanted = sum_of(values);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(sum_of(values), wanted);
    std::vector<ExactSum> parts(7);
    for (size_t i = 0; i < values.size(); ++i) parts[i % 7].add(values[i]);
    ExactSum total, by_digits;
    for (ExactSum& part : parts) {
      total.add(part);
      const auto digits = part.digits();
      for (size_t i = 0; i < digits.size(); ++i) by_digits.digits()[i] += digits[i];
    }
    EXPECT_EQ(total.value(), wanted);
    EXPECT_EQ(by_digits.value(), wanted);
  }
}

TEST(ExactSum, TellsOfWhatIsNotFinite) {
  EXPECT_TRUE(std::isnan(sum_of({1, std::numeric_limits<double>::infinity()})));
  EXPECT_TRUE(std::isnan(sum_of({std::nan(""), 1})));
}

}  // namespace
}  // namespace duoka
