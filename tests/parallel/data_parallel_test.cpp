// SPDX-License-Identifier: Apache-2.0
// Several ranks against one: same data, same losses, gradients and weights.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/parallel/assemble.h"
#include "parallel/toy_training.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using test::even_schedule;
using test::gradient_traffic;
using test::make_toy;
using test::toy;
using test::toy_stream;
using test::ToyOptions;

struct Row {
  const char* name;
  int num_ranks;
  test::ToySchedule schedule;
  ToyOptions toy;
  EngineOptions engine;
};

class DataParallel : public ::testing::TestWithParam<Row> {};

TEST_P(DataParallel, EqualsOneRank) {
  const Row& row = GetParam();
  const double tolerance = row.toy.dtype == at::kDouble ? 1e-12 : 1e-5;
  const test::ToyOutcome wanted = test::train_toy(1, test::on_one_rank(row.schedule), row.toy);
  test::expect_equal(test::train_toy(row.num_ranks, row.schedule, row.toy, row.engine), wanted, tolerance);
}

const EngineOptions small_buckets{.bucket_bytes = 1};
const EngineOptions recompute{.recompute = true};

INSTANTIATE_TEST_SUITE_P(
    Grid, DataParallel,
    ::testing::Values(
        Row{"two_tied", 2, even_schedule(2, 1), toy(at::kDouble, true), {}},
        Row{"two_tied_f32", 2, even_schedule(2, 1), toy(at::kFloat, true), small_buckets},
        Row{"two_accumulate_3", 2, even_schedule(2, 3), toy(at::kDouble, true), small_buckets},
        Row{"two_accumulate_3_f32", 2, even_schedule(2, 3), toy(at::kFloat, false), {}},
        Row{"four_tied", 4, even_schedule(4, 1), toy(at::kDouble, true), small_buckets},
        Row{"four_accumulate_3", 4, even_schedule(4, 3), toy(at::kDouble, false), {}},
        Row{"four_accumulate_3_f32", 4, even_schedule(4, 3), toy(at::kFloat, true), small_buckets},
        Row{"frozen_below", 2, even_schedule(2, 2), toy(at::kDouble, false, 2), small_buckets},
        Row{"recompute", 2, even_schedule(2, 3), toy(at::kDouble, true), recompute},
        // The last update has no rows for rank 1; before, the ranks have 3 and 1.
        Row{"uneven",
            2,
            {{{0, 1, 2}, {3}}, {{0, 1, 2}, {3}}, {{4}, {}}},
            toy(at::kDouble, true),
            small_buckets},
        Row{"rows_for_one_of_four", 4, {{{}, {}, {1}, {}}, {{}, {}, {1}, {}}}, toy(at::kDouble, true), {}}),
    [](const auto& row) { return row.param.name; });

TEST(DataParallel, SendsEachTrainableElementOnce) {
  for (const bool is_partly_frozen : {false, true}) {
    test::run_ranks(2, [&](const comm::Group& group) {
      Chain chain = make_toy(toy(at::kFloat, false, is_partly_frozen ? 1 : -1));
      Layout layout({}, group);
      Engine engine(chain, layout, small_buckets);
      int64_t numel = 0;
      for (const Slot& slot : engine.slots()) numel += slot.master.numel();
      gradient_traffic(layout).reset();
      const std::vector<Stream> micro{toy_stream(0), toy_stream(1)};
      engine.forward_backward(micro, 2 * test::count_trained(micro));
      engine.finish_gradients();
      // Layers with something to train: a bucket each, and nothing else is sent.
      const int64_t num_layers = is_partly_frozen ? 3 : 5;
      EXPECT_EQ(gradient_traffic(layout).total(), (comm::Traffic::Count{num_layers, 4 * numel}));
    });
  }
}

TEST(DataParallel, ReducesALayerWhileTheNextIsComputed) {
  test::run_ranks(2, [](const comm::Group& group) {
    Chain chain = make_toy(toy(at::kDouble, true));
    Layout layout({}, group);
    std::vector<int64_t> started;  // reductions under way when the walk back passes the probe behind block 0
    auto probe = std::make_unique<test::Probe>();
    probe->on_backward = [&] {
      started.push_back(gradient_traffic(layout).count(comm::Operation::all_reduce).calls);
    };
    chain.layers.insert(chain.layers.begin() + 2, std::move(probe));
    Engine engine(chain, layout, small_buckets);
    gradient_traffic(layout).reset();
    const std::vector<Stream> micro{toy_stream(0), toy_stream(1), toy_stream(2)};
    engine.forward_backward(micro, 2 * test::count_trained(micro));
    // Nothing on the first micro-batches; on the last whether to split the tied table, and blocks 2 and 1, not
    // the table, which has few rows for the tokens and is used once more below.
    EXPECT_EQ(started, (std::vector<int64_t>{0, 0, 1 + 2}));
    EXPECT_EQ(gradient_traffic(layout).count(comm::Operation::all_reduce).calls, 1 + 4);
    engine.finish_gradients();
  });
}

TEST(DataParallel, MergesSmallLayersUpToTheBucketSize) {
  test::run_ranks(2, [](const comm::Group& group) {
    Chain chain = make_toy(toy(at::kDouble, false));
    Layout layout({}, group);
    Engine engine(chain, layout, {.bucket_bytes = 2 * 8 * (36 + 6)});  // two blocks
    gradient_traffic(layout).reset();
    const std::vector<Stream> micro{toy_stream(0)};
    engine.forward_backward(micro, 2 * test::count_trained(micro));
    engine.finish_gradients();
    // head | block 2, block 1 | block 0 | embedding
    EXPECT_EQ(gradient_traffic(layout).count(comm::Operation::all_reduce).calls, 4);
  });
}

TEST(DataParallel, EvaluatesTheSumOverRanks) { test::expect_evaluates_the_sum_over_ranks({}); }

TEST(DataParallel, StartsFromTheValuesOfRank0) {
  test::run_ranks(2, [](const comm::Group& group) {
    ToyOptions options = toy(at::kDouble, true);
    options.offset = group.rank();
    Chain chain = make_toy(options);
    Layout layout({}, group);
    const Engine engine(chain, layout);
    EXPECT_TRUE(at::equal(chain.parameters()[1]->value, make_toy().parameters()[1]->value));
  });
}

TEST(DataParallel, RefusesDifferentModelsOnAllRanks) {
  std::atomic<int> num_refusals = 0;
  test::run_ranks(2, [&](const comm::Group& group) {
    Chain chain = make_toy(toy(at::kDouble, false, group.rank() == 0 ? -1 : 1));
    Layout layout({}, group);
    const std::string message = testing::message_of<StateError>([&] { Engine(chain, layout); });
    EXPECT_THAT(message, ::testing::HasSubstr("rank 1 has \"embedding.weight [11, 6] Double frozen\""));
    ++num_refusals;
  });
  EXPECT_EQ(num_refusals, 2);
}

TEST(DataParallel, AFailingRankEndsTheOthers) {
  const auto begin = std::chrono::steady_clock::now();
  const auto run = [] {
    test::run_ranks(2, [](const comm::Group& group) {
      Chain chain = make_toy(toy(at::kDouble, true));
      auto probe = std::make_unique<test::Probe>();
      probe->on_backward = [&] {
        if (group.rank() == 1) throw DataError("row 7 is damaged");
      };
      chain.layers.insert(chain.layers.begin() + 2, std::move(probe));
      Layout layout({}, group);
      Engine engine(chain, layout, small_buckets);
      const std::vector<Stream> micro{toy_stream(0)};
      engine.forward_backward(micro, 2 * test::count_trained(micro));
      engine.finish_gradients();
    });
  };
  EXPECT_THAT(testing::message_of<DataError>(run), ::testing::HasSubstr("row 7 is damaged"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, test::patience / 4);
}

}  // namespace
}  // namespace duoka::parallel
