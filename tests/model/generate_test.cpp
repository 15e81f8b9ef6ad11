// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/generate.h"

#include <cmath>
#include <limits>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/model/decoder.h"
#include "support/test_files.h"

namespace duoka::model {
namespace {

const std::vector<int64_t> prompt = {0, 3, 309, 203, 308, 282, 267, 4};

at::Tensor logits_of(std::vector<float> values) { return at::tensor(values); }

TEST(Choose, GreedyTakesTheFirstOfTheLargest) {
  EXPECT_EQ(choose(logits_of({1, 5, 5, 2}), {}, {}, 0), 1);
  const float low = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(choose(logits_of({low, low, -3}), {}, {}, 0), 2) << "minus infinity is a forbidden token";
}

TEST(Choose, RefusesWhatIsNotFinite) {
  const float nan = std::nanf(""), infinite = std::numeric_limits<float>::infinity();
  EXPECT_THROW(choose(logits_of({1, nan}), {}, {}, 0), StateError);
  EXPECT_THROW(choose(logits_of({1, infinite}), {}, {}, 0), StateError);
  EXPECT_THROW(choose(logits_of({-infinite, -infinite}), {}, {}, 0), StateError);
}

TEST(Choose, RepetitionPenalty) {
  const std::vector<int64_t> history = {0, 0, 2};
  EXPECT_EQ(choose(logits_of({4, 3, -1}), history, {.repetition_penalty = 2}, 0), 1) << "4 / 2 < 3";
  EXPECT_EQ(choose(logits_of({-8, -1.5, -1}), history, {.repetition_penalty = 2}, 0), 1) << "-1 * 2 < -1.5";
}

TEST(Choose, FrequenciesFollowTheProbabilities) {
  const auto logits = logits_of({std::log(1.f), std::log(2.f), std::log(5.f)});
  std::vector<int> counts(3);
  constexpr int num_draws = 20000;
  for (int step = 0; step < num_draws; ++step)
    ++counts[static_cast<size_t>(choose(logits, {}, {.temperature = 1, .seed = 5}, step))];
  const double wanted[] = {0.125, 0.25, 0.625};
  for (size_t i = 0; i < 3; ++i)  // four standard deviations
    EXPECT_NEAR(counts[i] / double{num_draws}, wanted[i],
                4 * std::sqrt(wanted[i] * (1 - wanted[i]) / num_draws));
}

TEST(Choose, TopKAndTopPCutTheTail) {
  const auto logits = logits_of({std::log(1.f), std::log(2.f), std::log(5.f), std::log(2.f)});
  for (int step = 0; step < 500; ++step) {
    EXPECT_EQ(choose(logits, {}, {.temperature = 1, .top_k = 1}, step), 2);
    EXPECT_EQ(choose(logits, {}, {.temperature = 1, .top_p = 0.5}, step), 2) << "it alone holds half";
    const auto two = choose(logits, {}, {.temperature = 1, .top_p = 0.6}, step);
    EXPECT_TRUE(two == 2 || two == 1) << two << ": of equals the lower id";
    EXPECT_NE(choose(logits, {}, {.temperature = 1, .top_k = 3}, step), 0);
  }
}

TEST(Choose, OptionsAreChecked) {
  for (const Sampling& bad : {Sampling{.temperature = -1}, Sampling{.top_k = -1}, Sampling{.top_p = 0},
                              Sampling{.top_p = 1.5}, Sampling{.repetition_penalty = 0}})
    EXPECT_THROW(choose(logits_of({1, 2}), {}, bad, 0), ConfigError);
}

class Generation : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }
  Decoder decoder_ = Decoder::load(testing::fixture("cases/models/tiny-llama"));
};

TEST_F(Generation, CacheChangesNothing) {
  for (const double temperature : {0.0, 1.0}) {
    GenerateOptions options{.max_new_tokens = 20, .sampling = {.temperature = temperature, .seed = 3}};
    const auto with_cache = generate(decoder_, prompt, options);
    options.use_cache = false;
    EXPECT_EQ(generate(decoder_, prompt, options).ids, with_cache.ids);
    EXPECT_EQ(with_cache.ids.size(), 20u);
    EXPECT_EQ(with_cache.reason, StopReason::max_new_tokens);
  }
}

TEST_F(Generation, GreedyStartsWithTheLargestLogit) {
  EXPECT_EQ(generate(decoder_, prompt, {.max_new_tokens = 1}).ids,
            std::vector<int64_t>{238});  // case G01, base
}

TEST_F(Generation, SeedsRepeatAndDiffer) {
  const auto reply = [&](uint64_t seed) {
    return generate(decoder_, prompt, {.max_new_tokens = 12, .sampling = {.temperature = 2, .seed = seed}})
        .ids;
  };
  EXPECT_EQ(reply(1), reply(1));
  EXPECT_NE(reply(1), reply(2));
}

TEST_F(Generation, StopsAtAnyOfTheStopIds) {
  const auto free = generate(decoder_, prompt, {.max_new_tokens = 6}).ids;
  const auto stopped = generate(decoder_, prompt, {.max_new_tokens = 6, .stop_ids = {999, free[3]}});
  const auto first = std::find(free.begin(), free.end(), free[3]);
  EXPECT_EQ(stopped.ids, std::vector<int64_t>(free.begin(), first));
  EXPECT_EQ(stopped.reason, StopReason::stop_id);
  EXPECT_EQ(stopped.stop_id, free[3]);
}

TEST_F(Generation, CallbackSeesEachTokenAndCanStop) {
  std::vector<int64_t> seen;
  const auto reply = generate(decoder_, prompt, {.max_new_tokens = 9}, [&](int64_t id) {
    seen.push_back(id);
    return seen.size() < 4;
  });
  EXPECT_EQ(reply.ids, seen);
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_EQ(reply.reason, StopReason::callback);
}

TEST_F(Generation, StopsAtTheModelsLength) {
  const std::vector<int64_t> nearly(static_cast<size_t>(decoder_.config().max_positions) - 2, 7);
  const auto reply = generate(decoder_, nearly, {.max_new_tokens = 10});
  EXPECT_EQ(reply.reason, StopReason::max_positions);
  EXPECT_EQ(reply.ids.size(), 3u) << "positions 254 and 255, and the one that follows";
}

TEST_F(Generation, PromptsAreChecked) {
  EXPECT_THROW(generate(decoder_, {}, {}), StateError);
  EXPECT_THROW(generate(decoder_, std::vector<int64_t>{320}, {}), StateError);
  EXPECT_THROW(generate(decoder_, std::vector<int64_t>{-1}, {}), StateError);
  EXPECT_THROW(generate(decoder_, std::vector<int64_t>(257, 1), {}), ConfigError);
}

}  // namespace
}  // namespace duoka::model
