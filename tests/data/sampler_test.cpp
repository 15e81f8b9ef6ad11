// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

namespace duoka::data {
namespace {

TEST(SplitMix, GivesThePublishedNumbers) {
  // First outputs of Vigna's splitmix64.c for seed 1234567.
  SplitMix random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

TEST(SplitMix, IsUniformBelowABound) {
  SplitMix random(1);
  std::map<uint64_t, int> counts;
  constexpr int draws = 60000;
  for (int i = 0; i < draws; ++i) ++counts[random.below(6)];
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [value, count] : counts) {
    EXPECT_LT(value, 6u);
    EXPECT_NEAR(count, draws / 6.0, 400);  // More than four standard deviations.
  }
}

TEST(SplitMix, HandlesTheEndsOfTheRange) {
  SplitMix random(2);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(random.below(1), 0u);
  const uint64_t huge = ~uint64_t{0} - 5;
  for (int i = 0; i < 10; ++i) EXPECT_LT(random.below(huge), huge);
}

TEST(MixSeeds, TellsOrderAndNumberApart) {
  const std::set<uint64_t> values = {mix_seeds(1, 2),    mix_seeds(2, 1), mix_seeds(0, 0),
                                     mix_seeds(0, 0, 1), mix_seeds(0, 1), mix_seeds(1, 0)};
  EXPECT_EQ(values.size(), 6u);
}

TEST(EpochOrder, IsTheSameOnEveryMachine) {
  // Recorded once: a change here changes the data order of every run and breaks resuming.
  EXPECT_EQ(epoch_order(10, 42, 0), (std::vector<int64_t>{4, 6, 5, 3, 1, 9, 7, 8, 2, 0}));
  EXPECT_EQ(epoch_order(10, 42, 1), (std::vector<int64_t>{2, 0, 1, 6, 9, 4, 7, 8, 3, 5}));
}

class EpochOrderOf : public testing::TestWithParam<int64_t> {};

TEST_P(EpochOrderOf, IsAPermutation) {
  std::vector<int64_t> order = epoch_order(GetParam(), 7, 3);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, epoch_order(GetParam(), 0, 0, false));
}
INSTANTIATE_TEST_SUITE_P(Sizes, EpochOrderOf, testing::Values(0, 1, 2, 3, 20, 255, 4097));

TEST(EpochOrder, WithoutShufflingIsTheFilesOrder) {
  std::vector<int64_t> expected(20);
  std::iota(expected.begin(), expected.end(), 0);
  for (int64_t epoch : {0, 1, 5}) EXPECT_EQ(epoch_order(20, 9, epoch, false), expected);
}

TEST(EpochOrder, MovesRowsEverywhere) {
  // Each row should come first about equally often over many epochs.
  std::map<int64_t, int> first;
  for (int64_t epoch = 0; epoch < 5000; ++epoch) ++first[epoch_order(5, 1, epoch).front()];
  for (const auto& [row, count] : first) EXPECT_NEAR(count, 1000, 150) << "row " << row;
}

// Case D07: same seed, same orders; another seed or epoch, another order.
TEST(EpochOrder, CaseD07SeedAndEpochDecide) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed : {1u, 2u})
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(epoch_order(20, seed, epoch), epoch_order(20, seed, epoch));
      orders.insert(epoch_order(20, seed, epoch));
    }
  EXPECT_EQ(orders.size(), 6u);
}

// Not held, but computed: 2^18 rows are the most that are.
TEST(RowOrder, OfManyRowsIsAPermutationToo) {
  for (const int64_t num_rows : {(1 << 18) + 1, 300'000, 1 << 19}) {
    std::vector<int64_t> order = epoch_order(num_rows, 7, 3);
    EXPECT_NE(order, epoch_order(num_rows, 7, 4));
    EXPECT_NE(order, epoch_order(num_rows, 8, 3));
    std::ranges::sort(order);
    EXPECT_EQ(order, epoch_order(num_rows, 0, 0, false));
  }
}

TEST(RowOrder, OfManyRowsIsWellMixed) {
  constexpr int64_t num_rows = 400'000, parts = 20;
  const RowOrder order(num_rows, 1, 0);
  // Where the rows of one part of the file go, and how often neighbours stay neighbours.
  std::array<int64_t, parts> counts{};
  int64_t neighbours = 0;
  for (int64_t i = 0; i < num_rows / parts; ++i) {
    ++counts[static_cast<size_t>(order[i] / (num_rows / parts))];
    if (std::abs(order[i] - order[i + 1]) == 1) ++neighbours;
  }
  for (const int64_t count : counts) EXPECT_NEAR(static_cast<double>(count), 1000, 6 * std::sqrt(1000));
  EXPECT_LE(neighbours, 5);
}

TEST(RowOrder, OfManyRowsIsTheSameOnEveryMachine) {
  const RowOrder order(5'000'000, 42, 0);
  EXPECT_EQ((std::vector<int64_t>{order[0], order[1], order[2], order[4'999'999]}),
            (std::vector<int64_t>{2720089, 227128, 151407, 15281}));
}

}  // namespace
}  // namespace duoka::data
