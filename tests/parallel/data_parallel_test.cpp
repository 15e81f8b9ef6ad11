// SPDX-License-Identifier: Apache-2.0
// Several ranks against one: same data, same losses, gradients and weights.
#include <atomic>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/parallel/assemble.h"
#include "parallel/toy_chain.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using test::make_toy;
using test::toy_stream;
using test::ToyOptions;

/// Which micro-batches (by number) each rank computes in each update: updates[u][rank].
using Schedule = std::vector<std::vector<std::vector<int>>>;

struct Outcome {
  std::vector<double> losses;
  std::vector<std::vector<at::Tensor>> gradients;  // of each update
  std::vector<at::Tensor> weights;                 // at the end
};

std::vector<Stream> take(const std::vector<int>& numbers) {
  std::vector<Stream> streams;
  for (const int number : numbers) streams.push_back(toy_stream(number));
  return streams;
}

int64_t trained_tokens(const std::vector<std::vector<int>>& update) {
  int64_t count = 0;
  for (const auto& numbers : update) count += test::count_trained(take(numbers));
  return count;
}

/// Plain gradient descent on `num_ranks` ranks; what rank 0 sees, after checking that all see the same.
Outcome train(int num_ranks, const Schedule& schedule, const ToyOptions& toy,
              const EngineOptions& options = {}) {
  Outcome outcome;
  test::run_ranks(num_ranks, [&](const comm::Group& group) {
    Chain chain = make_toy(toy);
    const auto engine = assemble(chain, {}, group, options);
    for (const auto& update : schedule) {
      const auto micro = take(update[static_cast<size_t>(group.rank())]);
      at::Tensor loss = at::tensor(engine->forward_backward(micro, trained_tokens(update)), at::kDouble);
      engine->finish_gradients();
      comm::all_reduce(loss, comm::Op::sum, group);
      std::vector<at::Tensor> gradients;
      for (Slot& slot : engine->slots()) {
        gradients.push_back(slot.grad.clone());
        slot.master.sub_(slot.grad, 0.1);
      }
      engine->publish();
      if (group.rank() == 0) {
        outcome.losses.push_back(loss.item<double>());
        outcome.gradients.push_back(gradients);
      }
    }
    for (Slot& slot : engine->slots()) {
      at::Tensor first = slot.master.clone();
      comm::broadcast(first, 0, group);
      EXPECT_TRUE(at::equal(first, slot.master))
          << slot.parameter->name << " differs on rank " << group.rank();
      if (group.rank() == 0) outcome.weights.push_back(slot.master.clone());
    }
  });
  return outcome;
}

/// All ranks' micro-batches of each update, on one rank.
Schedule on_one_rank(const Schedule& schedule) {
  Schedule joined;
  for (const auto& update : schedule) {
    joined.push_back({{}});
    for (const auto& numbers : update)
      joined.back()[0].insert(joined.back()[0].end(), numbers.begin(), numbers.end());
  }
  return joined;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

void expect_equal(const Outcome& found, const Outcome& wanted, double tolerance) {
  ASSERT_EQ(found.losses.size(), wanted.losses.size());
  for (size_t u = 0; u < wanted.losses.size(); ++u) {
    EXPECT_NEAR(found.losses[u], wanted.losses[u], tolerance * wanted.losses[u]) << "update " << u;
    for (size_t i = 0; i < wanted.gradients[u].size(); ++i)
      EXPECT_LE(distance(found.gradients[u][i], wanted.gradients[u][i]), tolerance)
          << "update " << u << " slot " << i;
  }
  for (size_t i = 0; i < wanted.weights.size(); ++i)
    EXPECT_LE(distance(found.weights[i], wanted.weights[i]), tolerance) << "slot " << i;
  EXPECT_LT(wanted.losses.back(), wanted.losses.front()) << "it does not learn";
}

/// `accumulation` micro-batches a rank, three updates.
Schedule even(int num_ranks, int accumulation) {
  Schedule schedule(3);
  for (auto& update : schedule) {
    int next = 0;
    for (int rank = 0; rank < num_ranks; ++rank) {
      update.emplace_back();
      for (int i = 0; i < accumulation; ++i) update.back().push_back(next++);
    }
  }
  return schedule;
}

struct Row {
  const char* name;
  int num_ranks;
  Schedule schedule;
  ToyOptions toy;
  EngineOptions engine;
};

ToyOptions toy(at::ScalarType dtype, bool is_tied, int first_trained_block = -1) {
  ToyOptions options;
  options.dtype = dtype;
  options.is_tied = is_tied;
  options.first_trained_block = first_trained_block;
  return options;
}

class DataParallel : public ::testing::TestWithParam<Row> {};

TEST_P(DataParallel, EqualsOneRank) {
  const Row& row = GetParam();
  const double tolerance = row.toy.dtype == at::kDouble ? 1e-12 : 1e-5;
  const Outcome wanted = train(1, on_one_rank(row.schedule), row.toy);
  expect_equal(train(row.num_ranks, row.schedule, row.toy, row.engine), wanted, tolerance);
}

const EngineOptions small_buckets{.bucket_bytes = 1};
const EngineOptions recompute{.recompute = true};

INSTANTIATE_TEST_SUITE_P(
    Grid, DataParallel,
    ::testing::Values(
        Row{"two_tied", 2, even(2, 1), toy(at::kDouble, true), {}},
        Row{"two_tied_f32", 2, even(2, 1), toy(at::kFloat, true), small_buckets},
        Row{"two_accumulate_3", 2, even(2, 3), toy(at::kDouble, true), small_buckets},
        Row{"two_accumulate_3_f32", 2, even(2, 3), toy(at::kFloat, false), {}},
        Row{"four_tied", 4, even(4, 1), toy(at::kDouble, true), small_buckets},
        Row{"four_accumulate_3", 4, even(4, 3), toy(at::kDouble, false), {}},
        Row{"four_accumulate_3_f32", 4, even(4, 3), toy(at::kFloat, true), small_buckets},
        Row{"frozen_below", 2, even(2, 2), toy(at::kDouble, false, 2), small_buckets},
        Row{"recompute", 2, even(2, 3), toy(at::kDouble, true), recompute},
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
      Engine engine(chain, group, small_buckets);
      int64_t numel = 0;
      for (const Slot& slot : engine.slots()) numel += slot.master.numel();
      group.traffic().reset();
      const std::vector<Stream> micro{toy_stream(0), toy_stream(1)};
      engine.forward_backward(micro, 2 * test::count_trained(micro));
      engine.finish_gradients();
      // Layers with something to train: a bucket each, and nothing else is sent.
      const int64_t num_layers = is_partly_frozen ? 3 : 5;
      EXPECT_EQ(group.traffic().total(), (comm::Traffic::Count{num_layers, 4 * numel}));
    });
  }
}

TEST(DataParallel, ReducesALayerWhileTheNextIsComputed) {
  test::run_ranks(2, [](const comm::Group& group) {
    Chain chain = make_toy(toy(at::kDouble, true));
    std::vector<int64_t> started;  // reductions under way when the walk back passes the probe behind block 0
    auto probe = std::make_unique<test::Probe>();
    probe->on_backward = [&] { started.push_back(group.traffic().count(comm::Operation::all_reduce).calls); };
    chain.layers.insert(chain.layers.begin() + 2, std::move(probe));
    Engine engine(chain, group, small_buckets);
    group.traffic().reset();
    const std::vector<Stream> micro{toy_stream(0), toy_stream(1), toy_stream(2)};
    engine.forward_backward(micro, 2 * test::count_trained(micro));
    // Nothing on the first micro-batches; blocks 2 and 1 on the last, not the tied table, used once more
    // below.
    EXPECT_EQ(started, (std::vector<int64_t>{0, 0, 2}));
    EXPECT_EQ(group.traffic().count(comm::Operation::all_reduce).calls, 4);
    engine.finish_gradients();
  });
}

TEST(DataParallel, MergesSmallLayersUpToTheBucketSize) {
  test::run_ranks(2, [](const comm::Group& group) {
    Chain chain = make_toy(toy(at::kDouble, false));
    Engine engine(chain, group, {.bucket_bytes = 2 * 8 * (36 + 6)});  // two blocks
    group.traffic().reset();
    const std::vector<Stream> micro{toy_stream(0)};
    engine.forward_backward(micro, 2 * test::count_trained(micro));
    engine.finish_gradients();
    // head | block 2, block 1 | block 0 | embedding
    EXPECT_EQ(group.traffic().count(comm::Operation::all_reduce).calls, 4);
  });
}

TEST(DataParallel, EvaluatesTheSumOverRanks) {
  const std::vector<Stream> all = take({0, 1, 2});
  LossSums wanted;
  {
    Chain chain = make_toy();
    wanted = Engine(chain, comm::Group()).evaluate(all);
  }
  test::run_ranks(2, [&](const comm::Group& group) {
    Chain chain = make_toy();
    Engine engine(chain, group);
    const LossSums sums = engine.evaluate(group.rank() == 0 ? std::span(all) : std::span<const Stream>());
    EXPECT_EQ(sums.loss_sum, wanted.loss_sum);
    EXPECT_EQ(sums.num_trained, wanted.num_trained);
  });
}

TEST(DataParallel, StartsFromTheValuesOfRank0) {
  test::run_ranks(2, [](const comm::Group& group) {
    ToyOptions options = toy(at::kDouble, true);
    options.offset = group.rank();
    Chain chain = make_toy(options);
    const Engine engine(chain, group);
    EXPECT_TRUE(at::equal(chain.parameters()[1]->value, make_toy().parameters()[1]->value));
  });
}

TEST(DataParallel, RefusesDifferentModelsOnAllRanks) {
  std::atomic<int> num_refusals = 0;
  test::run_ranks(2, [&](const comm::Group& group) {
    Chain chain = make_toy(toy(at::kDouble, false, group.rank() == 0 ? -1 : 1));
    const std::string message = testing::message_of<StateError>([&] { Engine(chain, group); });
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
      Engine engine(chain, group, small_buckets);
      const std::vector<Stream> micro{toy_stream(0)};
      engine.forward_backward(micro, 2 * test::count_trained(micro));
      engine.finish_gradients();
    });
  };
  EXPECT_THAT(testing::message_of<DataError>(run), ::testing::HasSubstr("row 7 is damaged"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace duoka::parallel
