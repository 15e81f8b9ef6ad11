// SPDX-License-Identifier: Apache-2.0
// A tied table that is sent in two parts, against its whole sum.
#include "parallel/split_table.h"

#include <gtest/gtest.h>

#include "parallel/toy_training.h"

namespace duoka::parallel {
namespace {

constexpr int64_t num_rows = 64, width = 3;

Parameter make_table() { return Parameter::whole("table", at::zeros({num_rows, width}, at::kDouble), true); }

/// What a rank's lookup adds: one id twice, one that both ranks have, and another number of them on each.
at::Tensor ids_of(int rank) {
  return rank == 0 ? at::tensor({5, 1, 5, 63}, at::kLong) : at::tensor({63, 2}, at::kLong);
}
at::Tensor rows_of(int rank) {
  return at::arange(ids_of(rank).size(0) * width, at::kDouble).view({-1, width}) + 10 * rank + 1;
}

/// begin() to add_rows(), with `add_gradient` as what happens below the head.
at::Tensor sum_of_parts(const comm::Group& group, Parameter& table, int64_t num_tokens,
                        const std::function<void()>& add_gradient) {
  SplitTable split(table, 2, group);
  split.begin(num_tokens);
  EXPECT_FALSE(split.comes_to_head(3));
  EXPECT_TRUE(split.comes_to_head(2));
  EXPECT_FALSE(split.comes_to_head(1)) << "twice";
  split.open_rows();
  add_gradient();
  at::Tensor sum = at::zeros({num_rows, width}, at::kDouble);
  split.add_rows([&](const at::Tensor& ids, const at::Tensor& rows) { sum.index_add_(0, ids, rows); });
  EXPECT_FALSE(split.is_split());
  return sum;
}

at::Tensor wanted_sum() {
  at::Tensor wanted = at::zeros({num_rows, width}, at::kDouble);
  for (const int rank : {0, 1}) wanted.index_add_(0, ids_of(rank), rows_of(rank));
  return wanted;
}

TEST(SplitTable, AddsTheRowsOfAllRanks) {
  test::run_ranks(2, [](const comm::Group& group) {
    Parameter table = make_table();
    const int rank = group.rank();
    const at::Tensor found = sum_of_parts(group, table, 4, [&] {
      table.accumulate_rows(ids_of(rank).narrow(0, 0, 1), rows_of(rank).narrow(0, 0, 1));
      const int64_t rest = ids_of(rank).size(0) - 1;
      table.accumulate_rows(ids_of(rank).narrow(0, 1, rest).to(at::kInt), rows_of(rank).narrow(0, 1, rest));
    });
    EXPECT_TRUE(at::equal(found, wanted_sum()));
  });
}

TEST(SplitTable, TakesAGradientThatIsNotRows) {
  test::run_ranks(2, [](const comm::Group& group) {
    Parameter table = make_table();
    const int rank = group.rank();
    const at::Tensor found = sum_of_parts(group, table, 4, [&] {
      table.accumulate_rows(ids_of(rank), rows_of(rank));
      table.accumulate(at::ones({num_rows, width}, at::kDouble));
    });
    EXPECT_TRUE(at::equal(found, wanted_sum() + group.size()));
  });
}

TEST(SplitTable, TakesARankWithoutRows) {
  test::run_ranks(2, [](const comm::Group& group) {
    Parameter table = make_table();
    const at::Tensor found = sum_of_parts(group, table, group.rank() == 0 ? 4 : 0, [&] {
      if (group.rank() == 0) table.accumulate_rows(ids_of(0), rows_of(0));
    });
    at::Tensor wanted = at::zeros({num_rows, width}, at::kDouble).index_add_(0, ids_of(0), rows_of(0));
    EXPECT_TRUE(at::equal(found, wanted));
  });
}

TEST(SplitTable, StaysWholeWhereOneRankHasManyTokens) {
  test::run_ranks(2, [](const comm::Group& group) {
    Parameter table = make_table();
    SplitTable split(table, 2, group);
    for (const int64_t num_tokens : {group.rank() == 0 ? int64_t{9} : int64_t{1}, int64_t{-1}}) {
      split.begin(num_tokens);
      EXPECT_FALSE(split.comes_to_head(2));
      EXPECT_FALSE(split.is_split());
    }
  });
}

/// A toy whose tied table is large for its few tokens.
test::ToyOptions large_toy(at::ScalarType dtype) {
  test::ToyOptions options = test::toy(dtype, true);
  options.vocabulary = 600;
  return options;
}
const EngineOptions small_buckets{.bucket_bytes = 1000};

class SplitTraining : public ::testing::TestWithParam<int> {};

TEST_P(SplitTraining, EqualsOneRank) {
  Plan plan;
  plan.zero_stage = GetParam();
  // The last update has no rows for rank 1; before, the ranks have 3 and 1.
  const test::ToySchedule uneven{{{0, 1, 2}, {3}}, {{0, 1, 2}, {3}}, {{4}, {}}};
  for (const test::ToySchedule& schedule : {test::even_schedule(2, 1), test::even_schedule(2, 3), uneven}) {
    const auto wanted = test::train_toy(1, test::on_one_rank(schedule), large_toy(at::kDouble));
    test::expect_equal(test::train_toy(2, schedule, large_toy(at::kDouble), small_buckets, plan), wanted,
                       1e-12);
  }
}

TEST_P(SplitTraining, SendsTheTableOnceAndFewRows) {
  test::run_ranks(2, [](const comm::Group& group) {
    Chain chain = test::make_toy(large_toy(at::kDouble));
    Plan plan;
    plan.zero_stage = GetParam();
    Layout layout(plan, group);
    Engine engine(chain, layout, small_buckets);
    comm::Traffic& traffic = test::gradient_traffic(layout);
    traffic.reset();
    const std::vector<Stream> micro{test::toy_stream(0)};
    engine.forward_backward(micro, 2 * test::count_trained(micro));
    engine.finish_gradients();
    using Operation = comm::Operation;
    int64_t numel = 0;
    for (const Parameter* parameter : chain.parameters()) numel += parameter->numel();
    const auto sums = traffic.count(GetParam() == 0 ? Operation::all_reduce : Operation::reduce_scatter);
    const int64_t agreements = GetParam() == 0 ? 2 : 0;  // of 8 bytes
    EXPECT_EQ(sums.bytes, numel * 8 + agreements * 8);
    // Each rank's rows and their ids: the toy's layers see no token but their own, so those of trained
    // tokens.
    if (GetParam() < 3) {
      EXPECT_EQ(traffic.count(Operation::all_gather).bytes, micro.front().num_trained * (6 + 1) * 8);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Stages, SplitTraining, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace duoka::parallel
