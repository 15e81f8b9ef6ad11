// SPDX-License-Identifier: Apache-2.0
// What lanes of the host do for those of a card, and dropout by them.
#include "core/lanes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include "core/lane_dropout.h"
#include "core/pack.h"

namespace duoka {
namespace {

template <class T>
class LanesOf : public ::testing::Test {};
using Numbers =
    ::testing::Types<HostLanes<32>, HostLanes<64>, HostLanes<128>, HostLanes<256>, HostLanes<1024>>;
TYPED_TEST_SUITE(LanesOf, Numbers);

TYPED_TEST(LanesOf, VisitEachItemOnce) {
  for (const int64_t count : {0, 1, 31, 32, 33, 1000, 5000}) {
    std::vector<int> visits(static_cast<size_t>(count));
    TypeParam().each(count, [&](int64_t i) { ++visits[static_cast<size_t>(i)]; });
    EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(count), 1));
  }
}

TYPED_TEST(LanesOf, FoldTakesInEachItemOnce) {
  const auto plus = [](int64_t a, int64_t b) { return a + b; };
  for (const int64_t count : {0, 1, 31, 32, 33, 1000, 5000}) {
    const auto sum = TypeParam().fold(
        count, int64_t{0}, [](int64_t& own, int64_t i) { own += i * i + 1; }, plus);
    EXPECT_EQ(sum, (count - 1) * count * (2 * count - 1) / 6 + count) << count;
  }
}

TYPED_TEST(LanesOf, FoldOfNothingIsNone) {
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  const auto higher = [](double a, double b) { return std::max(a, b); };
  EXPECT_EQ(TypeParam().fold(
                0, lowest, [](double&, int64_t) {}, higher),
            lowest);
  const auto high = TypeParam().fold(
      777, lowest,
      [](double& own, int64_t i) { own = std::max(own, -std::abs(static_cast<double>(i) - 300)); }, higher);
  EXPECT_EQ(high, 0);
}

template <class T>
class PackOf : public ::testing::Test {};
using Types = ::testing::Types<float, double, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(PackOf, Types);

TYPED_TEST(PackOf, IsReadAndWritten) {
  constexpr int width = full_width<TypeParam>;
  static_assert(width * sizeof(TypeParam) == card_access_bytes);
  alignas(16) TypeParam from[2 * width], to[2 * width] = {};
  for (int i = 0; i < 2 * width; ++i) from[i] = static_cast<TypeParam>(static_cast<float>(i) + 0.5F);
  store<width>(to + width, load<width>(from));
  store<1>(to, load<1>(from + width + 1));
  for (int i = 0; i < width; ++i) EXPECT_EQ(to[width + i], from[i]);
  EXPECT_EQ(to[0], from[width + 1]);
}

TYPED_TEST(PackOf, DropoutByLanesIsThatOfTheLoop) {
  const DropoutToken token{0xF00DFACE12345678, 0xFFFFFFFF00000007, 41};
  constexpr uint32_t threshold = 0x50000000;
  for (const int64_t first : {0, 1, 16, 63, 64, 65, 130})
    for (const int64_t count : {1, 15, 64, 200, 577}) {
      std::vector<TypeParam> x, wanted(static_cast<size_t>(count)), found(wanted);
      for (int64_t i = 0; i < count; ++i)
        x.push_back(static_cast<TypeParam>(std::sin(static_cast<float>(i) + 1)));
      drop_row(x.data(), wanted.data(), first, count, token, threshold, 1.4545);
      lanes::drop_row(HostLanes<128>(), x.data(), found.data(), first, count, token, threshold,
                      static_cast<Accumulate<TypeParam>>(1.4545));
      EXPECT_EQ(found, wanted) << first << " " << count;
      lanes::drop_row(HostLanes<32>(), x.data(), x.data(), first, count, token, threshold,
                      static_cast<Accumulate<TypeParam>>(1.4545));
      EXPECT_EQ(x, wanted) << "in place, " << first << " " << count;
    }
}

}  // namespace
}  // namespace duoka
