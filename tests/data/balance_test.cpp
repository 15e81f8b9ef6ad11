// SPDX-License-Identifier: Apache-2.0
#include "data/balance.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/data/sampler.h"

namespace duoka::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Between 30 and 600, as tokens of rows are.
std::vector<int64_t> some_costs(size_t count, uint64_t seed) {
  SplitMix random(seed);
  std::vector<int64_t> costs(count);
  for (int64_t& cost : costs) cost = 30 + static_cast<int64_t>(random.below(571));
  return costs;
}

/// What each of `ranks` has to do when it takes groups rank, rank + ranks, …
std::vector<int64_t> work_of_ranks(const std::vector<int64_t>& costs, int64_t room, size_t ranks) {
  const auto groups = balanced(costs, room);
  std::vector<int64_t> work(ranks);
  for (size_t group = 0; group < groups.size(); ++group)
    for (const int64_t item : groups[group]) work[group % ranks] += costs[static_cast<size_t>(item)];
  return work;
}

/// Mean over updates of the most that a rank has to do, by the mean of the ranks.
double mean_wait(size_t items, int64_t room, size_t ranks) {
  double sum = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto work = work_of_ranks(some_costs(items, seed), room, ranks);
    const auto most = static_cast<double>(*std::max_element(work.begin(), work.end()));
    sum += most * static_cast<double>(ranks) / static_cast<double>(std::reduce(work.begin(), work.end()));
  }
  return sum / 100;
}

TEST(Balance, HasEachItemOnceAndKeepsToTheRoom) {
  for (const size_t items : {1, 2, 5, 8, 13, 64, 100})
    for (const int64_t room : {1, 2, 3, 4, 8}) {
      const auto groups = balanced(some_costs(items, items), room);
      EXPECT_EQ(static_cast<int64_t>(groups.size()), (static_cast<int64_t>(items) + room - 1) / room);
      std::vector<int64_t> seen;
      for (const auto& group : groups) {
        EXPECT_THAT(group, testing::Not(IsEmpty()));
        EXPECT_LE(static_cast<int64_t>(group.size()), room);
        EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
        seen.insert(seen.end(), group.begin(), group.end());
      }
      std::sort(seen.begin(), seen.end());
      std::vector<int64_t> all(items);
      std::iota(all.begin(), all.end(), int64_t{0});
      EXPECT_EQ(seen, all);
    }
}

TEST(Balance, OfNothingIsNothing) { EXPECT_THAT(balanced({}, 4), IsEmpty()); }

TEST(Balance, PutsLongBesideShort) {
  const std::vector<int64_t> costs = {10, 9, 2, 1};
  EXPECT_THAT(balanced(costs, 2), ElementsAre(ElementsAre(0, 3), ElementsAre(1, 2)));
}

TEST(Balance, LeavesEqualItemsInTheirOrder) {
  const std::vector<int64_t> costs(4, 7);
  EXPECT_THAT(balanced(std::span(costs).first(2), 1), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(balanced(costs, 4), ElementsAre(ElementsAre(0, 1, 2, 3)));
}

TEST(Balance, DealsSingleItemsToRanksOfAnyPowerOfTwo) {
  const std::vector<int64_t> costs = {8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_THAT(work_of_ranks(costs, 1, 2), ElementsAre(18, 18));
  EXPECT_THAT(work_of_ranks(costs, 1, 4), ElementsAre(9, 9, 9, 9));
}

// Halves of eight rows as they come differ so much that one of two ranks waits a sixth of its time.
TEST(Balance, KeepsRanksFromWaiting) {
  EXPECT_LT(mean_wait(8, 4, 2), 1.02);
  EXPECT_LT(mean_wait(16, 4, 4), 1.02);
  EXPECT_LT(mean_wait(16, 1, 2), 1.02);  // One row a micro-batch, eight accumulated.
  EXPECT_LT(mean_wait(32, 1, 8), 1.05);
  EXPECT_LT(mean_wait(24, 4, 3), 1.03);
}

}  // namespace
}  // namespace duoka::data
