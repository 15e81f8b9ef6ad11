// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/pack.h"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/data/sampler.h"

namespace duoka::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Lengths as of real data: many short rows, few long ones.
std::vector<RowLength> some_lengths(int64_t count, int64_t longest, uint64_t seed) {
  SplitMix random(seed);
  std::vector<RowLength> lengths;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t limit = 1 + random.below(static_cast<uint64_t>(longest));
    const auto tokens = static_cast<int32_t>(1 + random.below(limit));
    lengths.push_back({tokens, static_cast<int32_t>(random.below(static_cast<uint64_t>(tokens)))});
  }
  return lengths;
}

PackOptions packing(int64_t tokens, int64_t streams_per_update = 4) {
  PackOptions options;
  options.is_packing = true;
  options.tokens_per_stream = tokens;
  options.streams_per_update = streams_per_update;
  options.seed = 5;
  return options;
}

PackOptions batches(int64_t rows, int64_t streams_per_update, bool is_shuffled = true) {
  PackOptions options;
  options.rows_per_stream = rows;
  options.streams_per_update = streams_per_update;
  options.seed = 5;
  options.is_shuffled = is_shuffled;
  return options;
}

std::vector<StreamRows> streams_of(const EpochPlan& plan) {
  std::vector<StreamRows> streams;
  for (int64_t update = 0; update < plan.num_updates(); ++update)
    for (StreamRows& stream : plan.update(update)) streams.push_back(std::move(stream));
  return streams;
}

std::vector<int64_t> end_to_end(const std::vector<StreamRows>& streams) {
  std::vector<int64_t> rows;
  for (const StreamRows& stream : streams) rows.insert(rows.end(), stream.begin(), stream.end());
  return rows;
}

std::vector<int64_t> rows_of(const EpochPlan& plan) { return end_to_end(streams_of(plan)); }

/// In ascending order.
std::vector<int64_t> rows_of_update(const EpochPlan& plan, int64_t update) {
  std::vector<int64_t> rows = end_to_end(plan.update(update));
  std::sort(rows.begin(), rows.end());
  return rows;
}

struct PackCase {
  const char* name;
  int64_t rows;
  int64_t longest;
  PackOptions options;
};

class AnyPlan : public testing::TestWithParam<PackCase> {};

TEST_P(AnyPlan, HasEachRowOnceAndNoEmptyStream) {
  const PackCase& c = GetParam();
  const auto lengths = some_lengths(c.rows, c.longest, 1);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const EpochPlan plan = plan_epoch(lengths, c.options, epoch);
    std::vector<int64_t> rows = rows_of(plan);
    std::sort(rows.begin(), rows.end());
    EXPECT_EQ(rows, epoch_order(c.rows, 0, 0, false));
    const auto streams = streams_of(plan);
    EXPECT_EQ(static_cast<int64_t>(streams.size()), plan.num_streams());
    for (const StreamRows& stream : streams) EXPECT_FALSE(stream.empty());
  }
}

TEST_P(AnyPlan, KeepsToTheRoomOfAStream) {
  const PackCase& c = GetParam();
  const auto lengths = some_lengths(c.rows, c.longest, 2);
  const EpochPlan plan = plan_epoch(lengths, c.options, 0);
  for (const StreamRows& stream : streams_of(plan)) {
    int64_t tokens = 0;
    for (int64_t row : stream) tokens += lengths[static_cast<size_t>(row)].num_tokens;
    if (c.options.is_packing)
      EXPECT_LE(tokens, c.options.tokens_per_stream);
    else
      EXPECT_LE(static_cast<int64_t>(stream.size()), c.options.rows_per_stream);
  }
}

TEST_P(AnyPlan, CountsTrainedTokensOfEachUpdate) {
  const PackCase& c = GetParam();
  const auto lengths = some_lengths(c.rows, c.longest, 3);
  const EpochPlan plan = plan_epoch(lengths, c.options, 1);
  for (int64_t update = 0; update < plan.num_updates(); ++update) {
    int64_t trained = 0;
    for (int64_t row : rows_of_update(plan, update)) trained += lengths[static_cast<size_t>(row)].num_trained;
    EXPECT_EQ(plan.num_trained(update), trained);
  }
}

TEST_P(AnyPlan, IsAPureFunction) {
  const PackCase& c = GetParam();
  const auto lengths = some_lengths(c.rows, c.longest, 4);
  EXPECT_EQ(rows_of(plan_epoch(lengths, c.options, 2)), rows_of(plan_epoch(lengths, c.options, 2)));
  if (c.rows < 20) return;
  EXPECT_NE(rows_of(plan_epoch(lengths, c.options, 2)), rows_of(plan_epoch(lengths, c.options, 3)));
}

TEST_P(AnyPlan, GivesEachStreamOfAnUpdateToOneRank) {
  const PackCase& c = GetParam();
  const EpochPlan plan = plan_epoch(some_lengths(c.rows, c.longest, 5), c.options, 0);
  for (int64_t ranks : {1, 2, 3, 4})
    for (int64_t update = 0; update < plan.num_updates(); ++update) {
      const auto all = plan.update(update);
      std::vector<std::vector<StreamRows>> shares;
      for (int64_t rank = 0; rank < ranks; ++rank) shares.push_back(plan.update_of_rank(update, rank, ranks));
      const size_t steps = (all.size() + static_cast<size_t>(ranks) - 1) / static_cast<size_t>(ranks);
      for (const auto& share : shares) ASSERT_EQ(share.size(), steps);
      for (size_t i = 0; i < steps * static_cast<size_t>(ranks); ++i)
        EXPECT_EQ(shares[i % static_cast<size_t>(ranks)][i / static_cast<size_t>(ranks)],
                  i < all.size() ? all[i] : StreamRows{});
    }
}

INSTANTIATE_TEST_SUITE_P(Plans, AnyPlan,
                         testing::Values(PackCase{"packed", 3000, 200, packing(512)},
                                         PackCase{"packed_windows", 20000, 100, packing(256)},
                                         PackCase{"packed_tight", 500, 64, packing(64, 3)},
                                         PackCase{"packed_one_row", 1, 64, packing(64)},
                                         PackCase{"batches", 1000, 100, batches(4, 2)},
                                         PackCase{"batches_uneven", 1003, 100, batches(4, 3)},
                                         PackCase{"batches_of_one", 20, 10, batches(1, 2)},
                                         PackCase{"no_rows", 0, 10, batches(2, 2)},
                                         PackCase{"no_rows_packed", 0, 10, packing(64)}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Packing, FillsStreams) {
  const auto lengths = some_lengths(20000, 500, 6);
  const EpochPlan plan = plan_epoch(lengths, packing(2048), 0);
  EXPECT_GT(plan.fill(2048), 0.99);
  EXPECT_LE(plan.fill(2048), 1.0);
}

TEST(Packing, PairsRowsThatFillAStreamTogether) {
  const std::vector<RowLength> lengths = {{7, 1}, {3, 1}, {6, 1}, {4, 1}, {10, 1}};
  const EpochPlan plan = plan_epoch(lengths, packing(10), 0);
  EXPECT_EQ(plan.num_streams(), 3);
  EXPECT_DOUBLE_EQ(plan.fill(10), 1.0);
}

TEST(Packing, GivesRowsNewNeighboursInEachEpoch) {
  const auto lengths = some_lengths(20000, 100, 7);
  std::map<std::pair<int64_t, int64_t>, int> together;  // Pairs that share a stream, by epoch.
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const EpochPlan plan = plan_epoch(lengths, packing(256), epoch);
    for (const StreamRows& stream : streams_of(plan))
      for (int64_t a : stream)
        for (int64_t b : stream)
          if (a < b) ++together[{a, b}];
  }
  const auto twice =
      std::count_if(together.begin(), together.end(), [](const auto& p) { return p.second == 2; });
  EXPECT_LT(static_cast<double>(twice), 0.02 * static_cast<double>(together.size()));
}

TEST(Packing, WithoutShufflingFollowsTheFile) {
  PackOptions options = packing(10);
  options.is_shuffled = false;
  const std::vector<RowLength> lengths = {{5, 1}, {5, 1}, {5, 1}, {5, 1}, {5, 1}};
  EXPECT_THAT(rows_of(plan_epoch(lengths, options, 3)), ElementsAre(0, 1, 2, 3, 4));
}

TEST(Packing, RefusesARowLongerThanAStream) {
  const std::vector<RowLength> lengths = {{11, 1}};
  try {
    plan_epoch(lengths, packing(10), 0);
    FAIL();
  } catch (const StateError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a row of 11 tokens"));
  }
}

TEST(PackOptions, MustBePositive) {
  const std::vector<RowLength> lengths = {{1, 1}};
  EXPECT_THROW(plan_epoch(lengths, batches(0, 1), 0), StateError);
  EXPECT_THROW(plan_epoch(lengths, batches(1, 0), 0), StateError);
  EXPECT_THROW(plan_epoch(lengths, packing(0), 0), StateError);
}

// Rows of an update are dealt to its streams so that no rank waits long for another.
TEST(Batches, CostEachStreamOfAnUpdateAboutTheSame) {
  const std::vector<RowLength> lengths = {{40, 0}, {10, 0}, {30, 0}, {20, 0},
                                          {5, 0},  {6, 0},  {50, 0}, {51, 0}};
  const EpochPlan plan = plan_epoch(lengths, batches(2, 2, false), 0);
  EXPECT_THAT(plan.update(0), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(plan.update(1), ElementsAre(ElementsAre(4, 7), ElementsAre(5, 6)));
}

TEST(Batches, CountATrainedTokenForMore) {
  const std::vector<RowLength> lengths = {{20, 0}, {20, 20}, {20, 0}, {20, 20}};
  const EpochPlan plan = plan_epoch(lengths, batches(2, 2, false), 0);
  EXPECT_THAT(plan.update(0), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

// With the same rows per update, any number of ranks sees the same rows in the same update.
TEST(Plan, DoesNotDependOnTheNumberOfRanks) {
  const auto lengths = some_lengths(50, 30, 8);
  const EpochPlan one = plan_epoch(lengths, batches(4, 2), 0);   // 1 rank, 2 accumulated.
  const EpochPlan two = plan_epoch(lengths, batches(2, 4), 0);   // 2 ranks, 2 accumulated.
  const EpochPlan four = plan_epoch(lengths, batches(1, 8), 0);  // 4 ranks, 2 accumulated.
  ASSERT_EQ(one.num_updates(), 7);
  for (int64_t update = 0; update < one.num_updates(); ++update) {
    EXPECT_EQ(rows_of_update(one, update), rows_of_update(two, update));
    EXPECT_EQ(rows_of_update(one, update), rows_of_update(four, update));
    EXPECT_EQ(one.num_trained(update), four.num_trained(update));
  }
}

// Rows trained on say where an epoch goes on, in updates of another size too.
TEST(Plan, GoesOnAfterSoManyRows) {
  const auto lengths = some_lengths(50, 30, 8);
  const EpochPlan small = plan_epoch(lengths, batches(2, 1), 0),
                  large = plan_epoch(lengths, batches(4, 2), 0);
  for (int64_t update = 0; update <= small.num_updates(); ++update)
    EXPECT_EQ(small.update_after(small.rows_before(update)), update);
  EXPECT_EQ(small.rows_before(3), 6);
  EXPECT_EQ(small.rows_before(small.num_updates()), 50);
  EXPECT_EQ(large.update_after(small.rows_before(4)), 1);
  EXPECT_EQ(large.update_after(small.rows_before(7)), 1);
  EXPECT_EQ(large.update_after(50), 7);
  EXPECT_EQ(large.update_after(1000), 7);
}

// Case D01: rank k takes row 2s + k at step s; 5 rows make 3 steps and no row is repeated.
TEST(Plan, CaseD01UnevenEnd) {
  const std::vector<RowLength> five(5, RowLength{4, 3});
  const EpochPlan plan = plan_epoch(five, batches(1, 2, false), 0);
  ASSERT_EQ(plan.num_updates(), 3);
  EXPECT_THAT(rows_of(plan), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(plan.update_of_rank(1, 0, 2), ElementsAre(ElementsAre(2)));
  EXPECT_THAT(plan.update_of_rank(1, 1, 2), ElementsAre(ElementsAre(3)));
  EXPECT_THAT(plan.update_of_rank(2, 0, 2), ElementsAre(ElementsAre(4)));
  EXPECT_THAT(plan.update_of_rank(2, 1, 2), ElementsAre(IsEmpty()));
  EXPECT_EQ(plan.num_trained(2), 3);
}

TEST(Plan, CaseD01FewerRowsThanRanks) {
  const std::vector<RowLength> one(1, RowLength{4, 3});
  const EpochPlan plan = plan_epoch(one, batches(1, 2), 0);
  ASSERT_EQ(plan.num_updates(), 1);
  EXPECT_THAT(plan.update_of_rank(0, 0, 2), ElementsAre(ElementsAre(0)));
  EXPECT_THAT(plan.update_of_rank(0, 1, 2), ElementsAre(IsEmpty()));
}

TEST(Plan, CaseD01SevenRowsOnThreeRanks) {
  const std::vector<RowLength> seven(7, RowLength{4, 3});
  const EpochPlan plan = plan_epoch(seven, batches(1, 3, false), 0);
  ASSERT_EQ(plan.num_updates(), 3);
  EXPECT_THAT(plan.update_of_rank(2, 0, 3), ElementsAre(ElementsAre(6)));
  EXPECT_THAT(plan.update_of_rank(2, 1, 3), ElementsAre(IsEmpty()));
  EXPECT_THAT(plan.update_of_rank(2, 2, 3), ElementsAre(IsEmpty()));
}

// Case D07: in each epoch the rows of the ranks are disjoint and together all, in another order than before.
TEST(Plan, CaseD07RanksShareNoRow) {
  const std::vector<RowLength> twenty(20, RowLength{4, 3});
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const EpochPlan plan = plan_epoch(twenty, batches(1, 2), epoch);
    std::multiset<int64_t> seen;
    for (int64_t update = 0; update < plan.num_updates(); ++update)
      for (int64_t rank : {0, 1})
        for (const StreamRows& stream : plan.update_of_rank(update, rank, 2))
          for (const int64_t row : stream) seen.insert(row);
    EXPECT_EQ(seen.size(), 20u);
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 20u);
    EXPECT_EQ(rows_of(plan), epoch_order(20, 5, epoch));
    orders.insert(rows_of(plan));
  }
  EXPECT_EQ(orders.size(), 3u);
}

}  // namespace
}  // namespace duoka::data
