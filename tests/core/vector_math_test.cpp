// SPDX-License-Identifier: Apache-2.0
#include "core/vector_math.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/vector_loop.h"

namespace duoka {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(VectorExp, HasTheErrorItSays) {
  double worst = 0;
  for (int i = -870'000; i <= 870'000; ++i) {
    const float x = static_cast<float>(i) * 1e-4F;
    const double wanted = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(vector_exp(x) - wanted) / wanted);
  }
  EXPECT_LT(worst, 1.5e-7);
  EXPECT_GT(worst, 0) << "nothing was compared";
  EXPECT_EQ(vector_exp(0.0F), 1.0F);
  EXPECT_EQ(vector_exp(1.5), std::exp(1.5)) << "double is the library's";
}

TEST(VectorExp, EndsWhereF32Does) {
  EXPECT_EQ(vector_exp(1e30F), vector_exp(87.3F));
  EXPECT_EQ(vector_exp(-infinity), vector_exp(-87.3F));
  EXPECT_LT(vector_exp(-infinity), 1.3e-38F);
  EXPECT_TRUE(std::isfinite(vector_exp(infinity)));
}

TEST(VectorExp, NotANumberStaysOne) {
  EXPECT_TRUE(std::isnan(vector_exp(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(sigmoid(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Sigmoid, IsThatOfDoublesAtBothEnds) {
  for (const float x : {-80.0F, -20.0F, -1.0F, 0.0F, 0.5F, 20.0F, 200.0F}) {
    const double wanted = 1 / (1 + std::exp(-static_cast<double>(x)));
    EXPECT_NEAR(sigmoid(x), wanted, 3e-7 * wanted) << x;
    EXPECT_NEAR(sigmoid(static_cast<double>(x)), wanted, 1e-15) << x;
  }
}

TEST(SumOf, TakesEachTermOnce) {
  for (const int64_t n : {0, 1, 15, 16, 17, 31, 32, 33, 100}) {
    const auto sum = sum_of<double>(n, [](int64_t i) { return static_cast<double>(i + 1); });
    EXPECT_EQ(sum, 0.5 * static_cast<double>(n * (n + 1))) << n;
  }
}

// The same bits on every machine: partial sum l has the terms l, l + 16, ...; then halves are added to
// halves.
TEST(SumOf, HasTheOrderItSays) {
  std::vector<float> terms;
  for (int i = 0; i < 45; ++i) terms.push_back(std::pow(-1.7F, static_cast<float>(i % 23)) / 3);
  std::vector<float> partial(16, 0);
  for (size_t i = 0; i < terms.size(); ++i) partial[i % 16] += terms[i];
  for (size_t width = 8; width > 0; width /= 2)
    for (size_t lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  const auto sum = sum_of<float>(45, [&](int64_t i) { return terms[static_cast<size_t>(i)]; });
  EXPECT_EQ(sum, partial[0]);
  float in_a_row = 0;
  for (const float term : terms) in_a_row += term;
  EXPECT_NE(sum, in_a_row) << "terms whose order cannot be told";
}

}  // namespace
}  // namespace duoka
