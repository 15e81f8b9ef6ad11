// SPDX-License-Identifier: Apache-2.0
// ZeRO-1 to 3 and hybrid sharding against one rank, and what they send and hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "parallel/parameter_shards.h"
#include "parallel/toy_training.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using test::even_schedule;
using test::gradient_traffic;
using test::make_toy;
using test::toy;
using test::toy_stream;

struct Case {
  std::string name;
  int num_ranks;
  int zero_stage;
  int shard;  // 0: all
  test::ToySchedule schedule;
  test::ToyOptions toy;
  EngineOptions engine;
};

class Zero : public ::testing::TestWithParam<Case> {};

TEST_P(Zero, EqualsOneRank) {
  const Case& c = GetParam();
  const double tolerance = c.toy.dtype == at::kDouble ? 1e-12 : 1e-5;
  const auto wanted = test::train_toy(1, test::on_one_rank(c.schedule), c.toy);
  Plan plan;
  plan.zero_stage = c.zero_stage;
  plan.shard = c.shard;
  test::expect_equal(test::train_toy(c.num_ranks, c.schedule, c.toy, c.engine, plan), wanted, tolerance);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // The last update has no rows for rank 1; before, the ranks have 3 and 1.
  const test::ToySchedule uneven{{{0, 1, 2}, {3}}, {{0, 1, 2}, {3}}, {{4}, {}}};
  for (const int stage : {1, 2, 3}) {
    const std::string name = "zero" + std::to_string(stage);
    all.push_back({name + "_two_tied", 2, stage, 0, even_schedule(2, 1), toy(at::kDouble, true), {}});
    all.push_back({name + "_two_accumulate_f32",
                   2,
                   stage,
                   0,
                   even_schedule(2, 3),
                   toy(at::kFloat, false),
                   {.bucket_bytes = 1}});
    // 11 and 6 rows for four ranks: 3 3 3 2 and 2 2 2 0.
    all.push_back(
        {name + "_four", 4, stage, 0, even_schedule(4, 2), toy(at::kDouble, false), {.bucket_bytes = 1}});
    all.push_back({name + "_hybrid", 4, stage, 2, even_schedule(4, 2), toy(at::kDouble, true), {}});
    all.push_back({name + "_frozen_below", 2, stage, 0, even_schedule(2, 2), toy(at::kDouble, false, 2), {}});
    all.push_back(
        {name + "_recompute", 2, stage, 0, even_schedule(2, 2), toy(at::kDouble, true), {.recompute = true}});
    all.push_back({name + "_uneven", 2, stage, 0, uneven, toy(at::kDouble, true), {.bucket_bytes = 1}});
    all.push_back({name + "_one_rank", 1, stage, 0, even_schedule(1, 2), toy(at::kDouble, true), {}});
    all.push_back({name + "_eight", 8, stage, 0, even_schedule(8, 1), toy(at::kDouble, true), {}});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Grid, Zero, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

// The same bits from any number of ranks, any stage, any accumulation.
class Exact : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(Exact, GivesTheBitsOfOneRank) {
  const auto dtype = GetParam();
  const EngineOptions exact{.bucket_bytes = 100, .exact = true};
  constexpr int num_micro = 8;
  const auto wanted = test::train_toy(1, even_schedule(1, num_micro), toy(dtype, true), exact);
  for (const int num_ranks : {1, 2, 4, 8})
    for (const int stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << num_ranks << " ranks, ZeRO-" << stage);
      Plan plan;
      plan.zero_stage = stage;
      test::expect_equal(test::train_toy(num_ranks, even_schedule(num_ranks, num_micro / num_ranks),
                                         toy(dtype, true), exact, plan),
                         wanted, 0);
    }
  Plan hybrid;
  hybrid.zero_stage = 2;
  hybrid.shard = 2;
  test::expect_equal(test::train_toy(4, even_schedule(4, 2), toy(dtype, true), exact, hybrid), wanted, 0);
}

TEST_P(Exact, GivesTheBitsOfOneRankWhereTheLastRanksHaveLess) {
  const auto dtype = GetParam();
  const EngineOptions exact{.exact = true};
  const test::ToySchedule alone{{{0, 1, 2, 3, 4}}, {{5, 6, 7}}, {{0}}};
  const test::ToySchedule two{{{0, 2, 4}, {1, 3}}, {{5, 7}, {6}}, {{0}, {}}};
  const test::ToySchedule four{{{0, 4}, {1}, {2}, {3}}, {{5}, {6}, {7}, {}}, {{0}, {}, {}, {}}};
  const auto wanted = test::train_toy(1, alone, toy(dtype, false), exact);
  for (const int stage : {0, 1, 3}) {
    Plan plan;
    plan.zero_stage = stage;
    test::expect_equal(test::train_toy(2, two, toy(dtype, false), exact, plan), wanted, 0);
    test::expect_equal(test::train_toy(4, four, toy(dtype, false), exact, plan), wanted, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Exact, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& dtype) { return dtype.param == at::kFloat ? "f32" : "bf16"; });

TEST(ZeroExact, WithoutItBitsMayDiffer) {
  // The test above could not fail if the toy's sums did not round.
  const auto wanted = test::train_toy(1, even_schedule(1, 8), toy(at::kFloat, true));
  const auto found = test::train_toy(4, even_schedule(4, 2), toy(at::kFloat, true));
  bool differs = false;
  for (size_t i = 0; i < wanted.weights.size(); ++i)
    differs = differs || !at::equal(wanted.weights[i], found.weights[i]);
  EXPECT_TRUE(differs);
}

/// Elements of trainable and of all parameters whose rows divide by two: the toy's table has 11 rows, as 12.
int64_t padded_numel(const Chain& chain) {
  int64_t numel = 0;
  for (const Parameter* parameter : chain.parameters()) {
    const int64_t rows = parameter->value.size(0);
    numel += (rows + 1) / 2 * 2 * (parameter->numel() / rows);
  }
  return numel;
}

TEST(ZeroTraffic, IsThatOfTheFormulas) {
  constexpr int num_micro = 3;
  for (const int stage : {0, 1, 2, 3})
    test::run_ranks(2, [&](const comm::Group& group) {
      Chain chain = make_toy(toy(at::kFloat, false));
      const int64_t bytes = 4 * padded_numel(chain);
      Plan plan;
      plan.zero_stage = stage;
      Layout layout(plan, group);
      Engine engine(chain, layout);
      comm::Traffic& traffic = gradient_traffic(layout);
      traffic.reset();
      const std::vector<Stream> micro(num_micro, toy_stream(1));
      engine.forward_backward(micro, 2 * test::count_trained(micro));
      engine.finish_gradients();
      const int64_t in_update = traffic.total().bytes;
      engine.publish();
      const int64_t in_publish = traffic.total().bytes - in_update;
      using Operation = comm::Operation;
      if (stage == 0) {
        int64_t numel = 0;
        for (const Slot& slot : engine.slots()) numel += slot.master.numel();
        EXPECT_EQ(traffic.count(Operation::all_reduce).bytes, 4 * numel);
        EXPECT_EQ(in_publish, 0);
      } else {
        EXPECT_EQ(traffic.count(Operation::all_reduce).calls, 0);
        EXPECT_EQ(traffic.count(Operation::reduce_scatter).bytes, stage == 1 ? bytes : num_micro * bytes);
        // ZeRO-3 gathers a layer there and a layer back; each rank hands in its half.
        EXPECT_EQ(traffic.count(Operation::all_gather).bytes,
                  stage == 3 ? num_micro * 2 * (bytes / 2) : bytes / 2);
        EXPECT_EQ(in_publish, stage == 3 ? 0 : bytes / 2);
      }
    });
}

TEST(ZeroMemory, ThreeHoldsItsRowsOnlyBetweenWalks) {
  test::run_ranks(2, [](const comm::Group& group) {
    Chain chain = make_toy(toy(at::kFloat, true));
    int most_whole = 0;
    auto probe = std::make_unique<test::Probe>();
    const auto count_whole = [&] {
      int count = 0;
      for (const Parameter* parameter : chain.parameters()) count += parameter->is_released() ? 0 : 1;
      most_whole = std::max(most_whole, count);
    };
    probe->on_forward = count_whole;
    probe->on_backward = count_whole;
    chain.layers.insert(chain.layers.begin() + 2, std::move(probe));
    Plan plan;
    plan.zero_stage = 3;
    Layout layout(plan, group);
    Engine engine(chain, layout);
    for (const Parameter* parameter : chain.parameters())
      EXPECT_TRUE(parameter->is_released()) << parameter->name;
    const std::vector<Stream> micro{toy_stream(0), toy_stream(1)};
    engine.forward_backward(micro, 2 * test::count_trained(micro));
    engine.finish_gradients();
    EXPECT_EQ(most_whole, 0);  // at the probe, which has none: the neighbours' are not there
    for (const Parameter* parameter : chain.parameters()) {
      EXPECT_TRUE(parameter->is_released()) << parameter->name;
      EXPECT_FALSE(parameter->grad.defined()) << parameter->name;
    }
    int64_t owned = 0;
    for (const Slot& slot : engine.slots()) owned += slot.master.numel();
    EXPECT_EQ(owned, (group.rank() == 0 ? 6 : 5) * 6 + 3 * (3 * 6 + 3));
    // The value of a parameter, whole.
    engine.with_whole_parameters([&](const WholeParameter& whole) {
      EXPECT_TRUE(at::equal(whole("blocks.1.weight"),
                            make_toy(toy(at::kFloat, true)).layers[2]->parameters()[0]->value));
    });
  });
}

TEST(ZeroMemory, KeepsRowsAsParametersAreRead) {
  test::run_ranks(2, [](const comm::Group& group) {
    Plan plan;
    plan.zero_stage = 3;
    Layout layout(plan, group);
    Chain chain = make_toy(toy(at::kDouble, true));
    for (Parameter* parameter : chain.parameters()) {
      layout.keep(*parameter);
      EXPECT_TRUE(parameter->is_released());
    }
    Engine engine(chain, layout);
    const std::vector<Stream> micro{toy_stream(0)};
    Chain other = make_toy(toy(at::kDouble, true));
    Layout alone({}, comm::Group());
    EXPECT_DOUBLE_EQ(engine.evaluate(micro).mean(), Engine(other, alone).evaluate(micro).mean());
  });
}

TEST(ZeroEvaluate, WaitsForRanksWithMore) {
  Plan plan;
  plan.zero_stage = 3;
  test::expect_evaluates_the_sum_over_ranks(plan);
}

TEST(WholeParameters, AFailureOnRank0IsTheOthersToo) {
  test::run_ranks(2, [](const comm::Group& group) {
    Chain chain = make_toy();
    Plan plan;
    plan.zero_stage = 3;
    Layout layout(plan, group);
    Engine engine(chain, layout);
    const auto write = [&](const WholeParameter& whole) {
      whole("blocks.0.bias");
      throw DataError("the disk is full");
    };
    if (group.rank() == 0) {
      EXPECT_THROW(engine.with_whole_parameters(write), DataError);
    } else {
      EXPECT_THAT(testing::message_of<SystemError>([&] { engine.with_whole_parameters(write); }),
                  ::testing::HasSubstr("rank 0 failed: the disk is full"));
    }
  });
}

}  // namespace
}  // namespace duoka::parallel
