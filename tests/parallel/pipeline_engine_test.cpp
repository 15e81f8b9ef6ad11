// SPDX-License-Identifier: Apache-2.0
// Ranks that share the layers, against one rank: same data, same losses, gradients and weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/parallel/assemble.h"
#include "parallel/toy_training.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using test::even_schedule;
using test::toy;
using test::ToyOptions;

ToyOptions deep_toy(bool is_tied, int first_trained_block = -1) {
  ToyOptions options = toy(at::kDouble, is_tied, first_trained_block);
  options.num_blocks = 7;
  return options;
}

Plan pipeline(int num_ranks, PipelineSchedule schedule, int zero_stage = 0) {
  Plan plan{.zero_stage = zero_stage, .pipeline = num_ranks, .schedule = schedule};
  if (schedule == PipelineSchedule::interleaved) plan.chunks = 2;
  return plan;
}

void expect_as_one_rank(const Plan& plan, int num_shares, int accumulation, const ToyOptions& toy,
                        const EngineOptions& engine = {}) {
  const auto schedule = even_schedule(num_shares, accumulation);
  const test::ToyOutcome wanted = test::train_toy(1, test::on_one_rank(schedule), toy);
  test::expect_equal(test::train_toy(plan.pipeline * num_shares, schedule, toy, engine, plan), wanted, 1e-12);
}

class PipelineEngine : public ::testing::TestWithParam<PipelineSchedule> {};

TEST_P(PipelineEngine, EqualsOneRank) {
  for (const int num_ranks : {2, 4})
    for (const bool is_tied : {true, false})
      for (const int accumulation : {1, 3, 5}) {
        SCOPED_TRACE(text(num_ranks, " ranks, accumulation ", accumulation, is_tied ? ", tied" : ""));
        expect_as_one_rank(pipeline(num_ranks, GetParam()), 1, accumulation, deep_toy(is_tied));
      }
}

TEST_P(PipelineEngine, WithDataRanksAndShardedState) {
  for (const int zero_stage : {0, 1, 2, 3})
    for (const bool is_tied : {true, false}) {
      SCOPED_TRACE(text("zero_stage ", zero_stage, is_tied ? ", tied" : ""));
      expect_as_one_rank(pipeline(2, GetParam(), zero_stage), 2, 3, deep_toy(is_tied), {.bucket_bytes = 1});
    }
}

/// One data share has fewer micro-batches than the other, or none.
TEST_P(PipelineEngine, WithUnevenShares) {
  for (const int zero_stage : {0, 1, 2, 3})
    for (const bool recompute : {false, true}) {
      SCOPED_TRACE(text("zero_stage ", zero_stage, recompute ? ", recomputing" : ""));
      const test::ToySchedule schedule = {{{0, 2, 4}, {1}}, {{}, {1, 3}}, {{0}, {1}}};
      const test::ToyOutcome wanted = test::train_toy(1, test::on_one_rank(schedule), deep_toy(true));
      test::expect_equal(test::train_toy(4, schedule, deep_toy(true), {.recompute = recompute},
                                         pipeline(2, GetParam(), zero_stage)),
                         wanted, 1e-12);
    }
}

/// Each chunk's layers are fetched twice a micro-batch and its gradients sent once, whatever the order.
TEST_P(PipelineEngine, ShardedTrafficAndMemoryAreThoseOfTheFormulas) {
  constexpr int num_micro = 3;
  for (const int zero_stage : {2, 3})
    test::run_ranks(4, [&](const comm::Group& group) {
      Layout layout(pipeline(2, GetParam(), zero_stage), group);
      ToyOptions here = deep_toy(false);
      here.vocabulary = 12;  // rows that divide
      layout.share_layers(test::toy_stack(here));
      here.layers = layout.layers();
      Chain chain = test::make_toy(here);
      int64_t bytes = 0;
      for (const Parameter* parameter : chain.parameters()) bytes += 8 * parameter->numel();
      const auto engine = assemble(chain, layout);
      comm::Traffic& traffic = test::gradient_traffic(layout);
      traffic.reset();
      const std::vector<Stream> micro(num_micro, test::toy_stream(1));
      engine->forward_backward(micro, 2 * test::count_trained(micro));
      engine->finish_gradients();
      using Operation = comm::Operation;
      EXPECT_EQ(traffic.count(Operation::reduce_scatter).bytes, num_micro * bytes);
      EXPECT_EQ(traffic.count(Operation::all_gather).bytes,
                zero_stage == 3 ? num_micro * 2 * (bytes / 2) : 0);
      for (const Parameter* parameter : chain.parameters()) {
        EXPECT_EQ(parameter->is_released(), zero_stage == 3) << parameter->name;
        EXPECT_FALSE(parameter->grad.defined()) << parameter->name;
      }
    });
}

TEST_P(PipelineEngine, WithHybridShards) {
  for (const int zero_stage : {2, 3}) {
    Plan plan = pipeline(2, GetParam(), zero_stage);
    plan.shard = 2;
    expect_as_one_rank(plan, 4, 2, deep_toy(true));
  }
}

TEST_P(PipelineEngine, WithFrozenLayersBelow) {
  // Of four ranks the first, or the first two, have nothing to train.
  for (const int first_trained : {2, 5})
    expect_as_one_rank(pipeline(4, GetParam()), 1, 3, deep_toy(false, first_trained));
  for (const int zero_stage : {2, 3})
    expect_as_one_rank(pipeline(2, GetParam(), zero_stage), 2, 3, deep_toy(false, 5));
}

TEST_P(PipelineEngine, Recomputes) {
  expect_as_one_rank(pipeline(2, GetParam()), 1, 3, deep_toy(true), {.recompute = true});
}

TEST_P(PipelineEngine, EvaluatesAsOneRank) {
  const auto evaluate = [&](int num_ranks, const Plan& plan) {
    LossSums found;
    test::run_ranks(num_ranks, [&](const comm::Group& group) {
      Layout layout(plan, group);
      ToyOptions here = deep_toy(true);
      layout.share_layers(test::toy_stack(here));
      here.layers = layout.layers();
      Chain chain = test::make_toy(here);
      const auto engine = assemble(chain, layout);
      const auto share = layout.data_share();
      std::vector<int> numbers;
      for (int i = share.rank; i < 5; i += share.size) numbers.push_back(i);
      const LossSums sums = engine->evaluate(test::toy_streams(numbers));
      EXPECT_EQ(engine->evaluate({}).num_trained, 0);
      if (group.rank() == group.size() - 1) found = sums;
    });
    return found;
  };
  const LossSums wanted = evaluate(1, {});
  for (const LossSums& found : {evaluate(2, pipeline(2, GetParam())), evaluate(4, pipeline(2, GetParam())),
                                evaluate(4, pipeline(2, GetParam(), 3))}) {
    EXPECT_EQ(found.num_trained, wanted.num_trained);
    EXPECT_NEAR(found.loss_sum, wanted.loss_sum, 1e-12 * wanted.loss_sum);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelineEngine,
                         ::testing::Values(PipelineSchedule::gpipe,
                                           PipelineSchedule::one_forward_one_backward,
                                           PipelineSchedule::interleaved, PipelineSchedule::zero_bubble),
                         [](const auto& test) { return std::string("as_") + schedule_name(test.param); });

TEST(PipelineLayout, SharesTheLayersByCostOrByHand) {
  const Stack stack{{0, 1, 1, 1, 1, 1, 1, 2}, 4};
  const auto layers_of = [&](const Plan& plan, int rank) {
    std::vector<std::pair<int64_t, int64_t>> layers;
    test::run_ranks(2, [&](const comm::Group& group) {
      Layout layout(plan, group);
      layout.share_layers(stack);
      if (group.rank() != rank) return;
      for (const LayerRange& range : layout.layers()) layers.emplace_back(range.first, range.last);
    });
    return layers;
  };
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(layers_of({.pipeline = 2}, 0), (Ranges{{0, 5}}));
  EXPECT_EQ(layers_of({.pipeline = 2}, 1), (Ranges{{5, 8}}));
  EXPECT_EQ(layers_of({.pipeline = 2, .split = {3, 5}}, 1), (Ranges{{3, 8}}));
  EXPECT_EQ(
      layers_of(
          {.pipeline = 2, .schedule = PipelineSchedule::interleaved, .chunks = 2, .split = {1, 3, 2, 2}}, 0),
      (Ranges{{0, 1}, {4, 6}}));
  EXPECT_TRUE(layers_of({}, 0).empty());
}

TEST(PipelineLayout, WhatDoesNotFitIsRefused) {
  const auto refusal = [](const Plan& plan) {
    return testing::message_of<ConfigError>([&] { resolve(plan, 2); });
  };
  EXPECT_THAT(refusal({.pipeline = 2, .chunks = 2}),
              ::testing::HasSubstr("set pipeline_schedule to interleaved"));
  EXPECT_THAT(refusal({.split = {1, 1}}), ::testing::HasSubstr("set pipeline_parallel_size"));
  test::run_ranks(2, [](const comm::Group& group) {
    Layout layout({.pipeline = 2}, group);
    layout.share_layers(test::toy_stack(deep_toy(false)));
    Chain whole = test::make_toy(deep_toy(false));
    EXPECT_THAT(testing::message_of<StateError>([&] { assemble(whole, layout); }),
                ::testing::HasSubstr("the layout gives it"));
  });
}

}  // namespace
}  // namespace duoka::parallel
