// SPDX-License-Identifier: Apache-2.0
// Tensors along the real orders of the schedules, on ranks that keep no common time.
#include "parallel/pipeline_exchange.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using Kind = PipelineAction::Kind;

constexpr int64_t width = 3;

/// Micro-batches of unlike sizes, one of them empty.
PipelineExchange::Tensors tensors(int num_micro) {
  std::vector<int64_t> rows;
  for (int micro = 0; micro < num_micro; ++micro) rows.push_back((5 * micro + 4) % 7);
  return {rows, width, at::TensorOptions(at::kFloat)};
}

/// What the activation that stage `stage` gets, or the gradient that it gets, consists of.
float activation(int stage, int micro) { return static_cast<float>(1000 * micro + stage); }
float gradient(int stage, int micro) { return static_cast<float>(-1000 * micro - stage - 1); }

void expect_filled(const at::Tensor& x, int64_t rows, float value, const std::string& what) {
  ASSERT_TRUE(x.defined()) << what;
  EXPECT_EQ(x.sizes(), at::IntArrayRef({rows, width})) << what;
  EXPECT_TRUE(x.eq(value).all().item<bool>()) << what << ": " << x << " wanted " << value;
}

/// Runs one update; `pause`: called before each action. Returns the most sent tensors that were alive at
/// once.
size_t update(PipelineExchange& exchange, const PipelineLists& lists, int rank, int num_stages, int num_micro,
              const std::function<void()>& pause) {
  const int num_ranks = static_cast<int>(lists.size());
  const auto shapes = tensors(num_micro);
  size_t most_held = 0;
  exchange.begin(lists, shapes);
  for (const PipelineAction& action : lists[static_cast<size_t>(rank)]) {
    pause();
    if (action.kind == Kind::backward_weight) continue;
    const bool is_forward = action.kind == Kind::forward;
    const int stage = action.chunk * num_ranks + rank;
    const int64_t rows = shapes.rows[static_cast<size_t>(action.micro)];
    const auto value = is_forward ? activation : gradient;
    const at::Tensor x = exchange.input(action);
    if (stage == (is_forward ? 0 : num_stages - 1)) {
      EXPECT_FALSE(x.defined()) << "stage " << stage;
    } else {
      expect_filled(x, rows, value(stage, action.micro),
                    text("stage ", stage, " micro-batch ", action.micro));
    }
    // Transposed, so that what is given is not contiguous.
    const float result = value(is_forward ? stage + 1 : stage - 1, action.micro);
    exchange.output(action, at::full({width, rows}, result).t());
    most_held = std::max(most_held, exchange.num_held());
  }
  exchange.finish();
  EXPECT_EQ(exchange.num_held(), 0U);
  return most_held;
}

/// Pauses of up to two milliseconds, other ones on each rank.
std::function<void()> jitter(int seed) {
  return [state = static_cast<unsigned>(seed) * 2654435761U + 1]() mutable {
    state = state * 1664525U + 1013904223U;
    if (state >> 31 != 0) std::this_thread::sleep_for(std::chrono::microseconds((state >> 16) % 2000));
  };
}

class PipelineExchangeTest : public ::testing::TestWithParam<int> {};

TEST_P(PipelineExchangeTest, EveryScheduleBringsEachTensorToItsStage) {
  const int num_ranks = GetParam();
  test::run_ranks(num_ranks, [&](const comm::Group& group) {
    const auto pause = jitter(group.rank());
    for (int chunks = 1; chunks <= 3; chunks += 2) {
      PipelineExchange exchange(group, chunks);
      for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward,
                                  PipelineSchedule::interleaved, PipelineSchedule::zero_bubble})
        for (const int micro : {1, 0, 3, 8}) {
          if (chunks > 1 && schedule != PipelineSchedule::interleaved) continue;
          SCOPED_TRACE(text(schedule_name(schedule), ", micro-batches ", micro, ", rank ", group.rank()));
          const auto lists = pipeline_lists({schedule, num_ranks, micro, chunks});
          update(exchange, lists, group.rank(), num_ranks * chunks, micro, pause);
          update(exchange, only_forwards(lists), group.rank(), num_ranks * chunks, micro, pause);
        }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, PipelineExchangeTest, ::testing::Values(1, 2, 3, 4));

TEST(PipelineExchange, KeepsFewSentTensorsAliveWhoeverIsSlow) {
  constexpr int num_micro = 40;
  for (const int slow : {0, 1})
    for (const bool is_forward_only : {false, true}) {
      std::atomic<size_t> most_held = 0;
      test::run_ranks(2, [&](const comm::Group& group) {
        PipelineExchange exchange(group, 1);
        auto lists = pipeline_lists({PipelineSchedule::gpipe, 2, num_micro});
        if (is_forward_only) lists = only_forwards(lists);
        const auto pause = [&] {
          if (group.rank() == slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        };
        const size_t held = update(exchange, lists, group.rank(), 2, num_micro, pause);
        for (size_t before = most_held; before < held && !most_held.compare_exchange_weak(before, held);) {
        }
      });
      EXPECT_GT(most_held, 0U);
      EXPECT_LE(most_held, 4U) << "rank " << slow << " is slow";
    }
}

TEST(PipelineExchange, MistakesOfTheCallerAreNamed) {
  const PipelineAction forward{Kind::forward, 0, 0};
  const auto lists = pipeline_lists({PipelineSchedule::interleaved, 1, 1, 2});
  PipelineExchange exchange(comm::Group(), 2);
  exchange.begin(lists, tensors(1));
  EXPECT_THAT(
      testing::message_of<StateError>([&] {
        exchange.input({Kind::forward, 0, 1});
      }),
      ::testing::HasSubstr("forward of micro-batch 0, chunk 1 on rank 0 is not what its list has next"));
  exchange.input(forward);
  EXPECT_THAT(testing::message_of<StateError>([&] {
                exchange.output(forward, at::full({2, width}, 1.0));
              }),
              ::testing::HasSubstr("made [2, 3]; wanted [4, 3]"));
  EXPECT_THROW(exchange.output(forward, {}), StateError);
  EXPECT_THAT(testing::message_of<StateError>([&] {
                exchange.input({Kind::forward, 0, 1});
              }),
              ::testing::HasSubstr("stage 0 has not given its output for micro-batch 0"));
  PipelineExchange other(comm::Group(), 2);
  other.begin(lists, tensors(1));
  other.input(forward);
  other.output(forward, at::full({4, width}, 1.0));
  EXPECT_THAT(testing::message_of<StateError>([&] { other.finish(); }),
              ::testing::HasSubstr("1 tensors that nobody took"));
  EXPECT_THROW(other.begin(lists, tensors(1)), StateError);
  EXPECT_THROW(PipelineExchange(comm::Group(), 2).begin({{}, {}}, tensors(1)), StateError);
}

}  // namespace
}  // namespace duoka::parallel
