// SPDX-License-Identifier: Apache-2.0
// The equivalence grid: every layout trains a decoder as one rank does, and what it saved goes on under any
// other.
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "duoka/core/text.h"
#include "train/small_training.h"

namespace duoka::testing {
namespace {

constexpr int num_updates = 5;

enum class Way { full, full_tied, lora, lora_packed };
std::string name_of(Way way) {
  switch (way) {
    case Way::full:
      return "full";
    case Way::full_tied:
      return "full_tied";
    case Way::lora:
      return "lora";
    case Way::lora_packed:
      return "lora_packed";
  }
  return "";
}

/// Six micro-batches an update, shuffled, the last update of an epoch with fewer; rows of uneven lengths.
SmallSetup setup_of(Way way) {
  SmallSetup setup = lora_setup(0.1);
  setup.selection = {.lora_target = "all"};
  if (way == Way::full || way == Way::full_tied) {
    setup.selection = {.finetuning_type = tune::FinetuningType::full};
    setup.schedule.learning_rate = 1e-3;
  }
  if (way == Way::full_tied) setup.model = fixture("cases/models/tiny-llama-tied");
  if (way == Way::lora_packed) setup.packed_tokens = 96;
  setup.weight_decay = 0.1;
  setup.max_grad_norm = 1;
  setup.is_shuffled = true;
  setup.streams_per_update = 6;
  setup.max_steps = num_updates;
  return setup;
}

class Layouts : public ::testing::TestWithParam<std::tuple<Grid, Way>> {};

TEST_P(Layouts, TrainAsOneRank) {
  const auto& [grid, way] = GetParam();
  const TemporaryFolder folder;
  const SmallData data(write_rows(folder / "rows.jsonl", 23));
  const SmallSetup setup = setup_of(way);
  const Finished wanted = train_on({"one"}, setup, data, folder / "one");
  expect_near(train_on(grid, setup, data, folder / "many"), wanted);
}

std::vector<Grid> layouts() {
  std::vector<Grid> all;
  const auto add = [&](const std::string& name, int num_ranks, const parallel::Plan& plan) {
    all.push_back({name, num_ranks, plan});
  };
  for (const int n : {2, 4}) {
    const std::string ranks = "_" + std::to_string(n);
    for (const int stage : {0, 1, 2, 3})
      add("zero" + std::to_string(stage) + ranks, n, {.zero_stage = stage});
    add("context" + ranks, n, {.context = n});
  }
  add("tensor_2", 2, {.tensor = 2});
  add("hybrid_2_of_4", 4, {.zero_stage = 3, .shard = 2});
  for (const int stage : {0, 1, 2, 3}) {
    const std::string zero = "zero" + std::to_string(stage);
    add(zero + "_2_tensor_2", 4, {.zero_stage = stage, .tensor = 2});
    add(zero + "_2_context_2", 4, {.zero_stage = stage, .context = 2});
  }
  add("tensor_2_context_2", 4, {.context = 2, .tensor = 2});
  using parallel::PipelineSchedule;
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward,
                              PipelineSchedule::interleaved, PipelineSchedule::zero_bubble}) {
    const int chunks = schedule == PipelineSchedule::interleaved ? 2 : 1;
    const std::string name = std::string("pipeline_2_") + parallel::schedule_name(schedule);
    add(name, 2, {.pipeline = 2, .schedule = schedule, .chunks = chunks});
    for (const int stage : {2, 3})
      add(name + "_zero" + std::to_string(stage) + "_2", 4,
          {.zero_stage = stage, .pipeline = 2, .schedule = schedule, .chunks = chunks});
  }
  add("pipeline_4", 4, {.pipeline = 4});
  add("pipeline_2_uneven", 2, {.pipeline = 2, .split = {1, 3}});
  for (const int stage : {0, 1})
    add("pipeline_2_zero" + std::to_string(stage) + "_2", 4, {.zero_stage = stage, .pipeline = 2});
  add("pipeline_2_tensor_2", 4, {.tensor = 2, .pipeline = 2});
  add("pipeline_2_context_2", 4, {.context = 2, .pipeline = 2});
  for (const int stage : {1, 3})
    add("pipeline_2_zero" + std::to_string(stage) + "_2_tensor_2", 8,
        {.zero_stage = stage, .tensor = 2, .pipeline = 2});
  add("data_2_tensor_2_context_2", 8, {.context = 2, .tensor = 2});
  add("zero3_2_tensor_2_context_2", 8, {.zero_stage = 3, .context = 2, .tensor = 2});
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Grid, Layouts,
    ::testing::Combine(::testing::ValuesIn(layouts()),
                       ::testing::Values(Way::full, Way::full_tied, Way::lora, Way::lora_packed)),
    [](const auto& test) { return std::get<0>(test.param).name + "_" + name_of(std::get<1>(test.param)); });

TEST(ResumeAcrossLayouts, LossesGoOnAsIfNothingHadHappened) {
  for (const Way way : {Way::full_tied, Way::lora}) {
    const TemporaryFolder folder;
    const SmallData data(write_rows(folder / "rows.jsonl", 23));
    SmallSetup setup = setup_of(way);
    const Finished wanted = train_on({"one"}, setup, data, folder / "one");
    setup.save = {train::Interval::Unit::steps, 3};
    train_on({"zero3", 4, {.zero_stage = 3}}, setup, data, folder / "zero3");
    train_on({"pipeline", 4, {.pipeline = 2}}, setup, data, folder / "pipeline");
    const std::vector<Grid> others = {{"one", 1, {}},
                                      {"data_2", 2, {}},
                                      {"tensor_2", 2, {.tensor = 2}},
                                      {"zero1_2_tensor_2", 4, {.zero_stage = 1, .tensor = 2}},
                                      {"zero2_4", 4, {.zero_stage = 2}},
                                      {"pipeline_2", 2, {.pipeline = 2}}};
    for (const char* from : {"zero3", "pipeline"})
      for (const Grid& other : others) {
        SCOPED_TRACE(text(from, " to ", other.name, "_", name_of(way)));
        expect_near(train_on(other, setup, data, folder / other.name, folder / from / "checkpoint-3"),
                    wanted);
      }
  }
}

TEST(ExactReduction, GivesTheBitsOfOneRankForADecoder) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const TemporaryFolder folder;
    const SmallData data(write_rows(folder / "rows.jsonl", 23));
    for (const Way way : {Way::full_tied, Way::lora}) {
      SmallSetup setup = setup_of(way);
      setup.dtype = dtype;
      setup.exact = true;
      setup.streams_per_update = 8;
      const Finished wanted = train_on({"one"}, setup, data, folder / "one");
      for (const int num_ranks : {2, 8})
        for (const int stage : {0, 3}) {
          SCOPED_TRACE(::testing::Message()
                       << name_of(way) << " on " << num_ranks << " ranks, ZeRO-" << stage);
          const Grid grid = {"many", num_ranks, {.zero_stage = stage}};
          expect_same_bits(train_on(grid, setup, data, folder / grid.name), wanted);
        }
    }
  }
}

}  // namespace
}  // namespace duoka::testing
