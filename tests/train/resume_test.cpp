// SPDX-License-Identifier: Apache-2.0
// k updates, a checkpoint, all objects anew, n - k updates: the bits of n updates.
#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/files.h"
#include "duoka/io/json.h"
#include "duoka/train/checkpoint.h"
#include "support/golden.h"
#include "support/run_ranks.h"
#include "train/small_training.h"

namespace duoka::testing {
namespace {

using train::Interval;

constexpr int64_t num_updates = 8, stop_after = 5;

/// A training to be stopped, and on what.
struct ResumeCase {
  const char* name;
  SmallSetup setup;
  int num_ranks = 1;
};
std::ostream& operator<<(std::ostream& out, const ResumeCase& one) { return out << one.name; }

SmallSetup small(bool is_lora, at::ScalarType dtype, bool is_adamw) {
  SmallSetup setup = lora_setup(0.1);
  if (!is_lora) setup.selection = {.finetuning_type = tune::FinetuningType::full};
  setup.dtype = dtype;
  setup.is_adamw = is_adamw;
  setup.momentum = is_adamw ? 0 : 0.9;
  setup.weight_decay = 0.1;
  setup.max_grad_norm = 1;
  setup.schedule = {.type = "cosine", .learning_rate = is_adamw ? 0.01 : 0.1, .warmup_steps = 2};
  setup.is_shuffled = true;
  setup.streams_per_update = 4;
  setup.max_steps = num_updates;
  setup.save = {Interval::Unit::steps, stop_after};
  return setup;
}

SmallSetup packed(SmallSetup setup) {
  setup.packed_tokens = 96;
  return setup;
}

/// An evaluation after each update decides the rate, and a rate so large that the loss rises now and then.
SmallSetup on_plateau() {
  SmallSetup setup = small(false, at::kFloat, false);
  setup.schedule = {.type = "reduce_lr_on_plateau", .learning_rate = 1, .factor = 0.5, .patience = 0};
  setup.eval = {Interval::Unit::steps, 1};
  return setup;
}

std::vector<ResumeCase> resume_cases() {
  std::vector<ResumeCase> cases;
  for (const bool is_lora : {true, false}) {
    cases.push_back({is_lora ? "lora_f32_adamw" : "full_f32_adamw", small(is_lora, at::kFloat, true)});
    cases.push_back({is_lora ? "lora_bf16_adamw" : "full_bf16_adamw", small(is_lora, at::kBFloat16, true)});
    cases.push_back({is_lora ? "lora_f32_sgd" : "full_f32_sgd", small(is_lora, at::kFloat, false)});
    cases.push_back({is_lora ? "lora_bf16_sgd" : "full_bf16_sgd", small(is_lora, at::kBFloat16, false)});
  }
  cases.push_back({"lora_packed", packed(small(true, at::kFloat, true))});
  cases.push_back({"full_packed_two_ranks", packed(small(false, at::kBFloat16, true)), 2});
  cases.push_back({"lora_two_ranks", small(true, at::kFloat, true), 2});
  cases.push_back({"plateau", on_plateau()});
  return cases;
}

class Resume : public ::testing::TestWithParam<ResumeCase> {};
INSTANTIATE_TEST_SUITE_P(Grid, Resume, ::testing::ValuesIn(resume_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Resume, GivesTheBitsOfAnUninterruptedRun) {
  const TemporaryFolder folder;
  // 5 updates an epoch unpacked: stopping after 5 is at an epoch's end; packed, in the middle of one.
  const SmallData data(write_rows(folder / "rows.jsonl", 20)), eval(fixture("cases/rows7.jsonl"));
  const auto checkpoint = folder / "whole" / ("checkpoint-" + std::to_string(stop_after));
  test::run_ranks(GetParam().num_ranks, [&](const comm::Group& group) {
    SmallTraining whole(GetParam().setup, data, folder / "whole", group, &eval);
    whole.run();
    SmallTraining rest(GetParam().setup, data, folder / "rest", group, &eval);
    rest.run(checkpoint);
    const auto wanted = whole.engine().slots(), found = rest.engine().slots();
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(at::equal(found[i].master, wanted[i].master)) << wanted[i].parameter->name;
      EXPECT_TRUE(at::equal(found[i].parameter->value, wanted[i].parameter->value));
      for (const auto& [name, tensor] : wanted[i].state)
        EXPECT_TRUE(at::equal(found[i].state.at(name), tensor)) << name;
    }
  });
  // The history in the state file covers the whole run, whoever wrote it.
  for (const char* value : {"loss", "grad_norm", "learning_rate", "eval_loss"})
    EXPECT_EQ(history(folder / "rest", value), history(folder / "whole", value)) << value;
  EXPECT_EQ(history(folder / "rest", "loss").size(), size_t{num_updates});
  const auto rates = history(folder / "rest", "learning_rate");
  EXPECT_NE(rates.front(), rates.back());  // a plateau was met, too
}

TEST(ResumeInEveryPlace, AnyUpdateOfAnEpochWillDo) {
  const TemporaryFolder folder;
  const SmallData data(write_rows(folder / "rows.jsonl", 13));
  SmallSetup setup = packed(small(true, at::kFloat, true));
  setup.streams_per_update = 1;
  setup.max_steps = 0;
  setup.num_epochs = 2.5;
  setup.save = {Interval::Unit::steps, 1};
  const int64_t steps = SmallTraining(setup, data, folder / "whole").run().steps;
  const auto losses = history(folder / "whole", "loss");
  ASSERT_GE(steps, 8);
  for (int64_t step = 1; step < steps; ++step) {
    SmallTraining rest(setup, data, folder / "rest");
    EXPECT_EQ(rest.run(folder / "whole" / ("checkpoint-" + std::to_string(step))).steps, steps);
    EXPECT_EQ(history(folder / "rest", "loss"), losses) << "after step " << step;
  }
}

/// Rows of each update that a run logged.
std::vector<std::vector<int64_t>> logged_rows(const std::filesystem::path& output_dir) {
  const std::string file = (output_dir / "row_ids.jsonl").string();
  std::vector<std::vector<int64_t>> updates;
  std::istringstream lines(read_text_file(file));
  for (std::string line; std::getline(lines, line);) {
    const io::Json entry = io::parse_json(line, file);
    auto& rows = updates.emplace_back();
    for (const io::Json& of_rank : entry["ranks"])
      for (const io::Json& row : of_rank) rows.push_back(row.get<int64_t>());
  }
  return updates;
}

/// Those of all updates but the first `from`, every `per_set` of them as a set: in an update they stand by
/// cost.
std::vector<std::multiset<int64_t>> in_sets_of(size_t per_set,
                                               const std::vector<std::vector<int64_t>>& updates,
                                               size_t from = 0) {
  std::vector<std::multiset<int64_t>> sets;
  for (size_t i = from; i < updates.size(); ++i)
    for (const int64_t row : updates[i]) {
      if (sets.empty() || sets.back().size() == per_set) sets.emplace_back();
      sets.back().insert(row);
    }
  return sets;
}

/// Other cards or another accumulation make updates of another size: rows of an epoch come once all the same,
/// and all that was asked for is trained, whatever the number of updates.
class ResumeWithOtherUpdates : public ::testing::Test {
 protected:
  ResumeWithOtherUpdates() : data_(write_rows(folder_ / "rows.jsonl", 12)) {
    setup_.max_steps = 0;
    setup_.num_epochs = 1;
    setup_.streams_per_update = 2;
    setup_.save = {Interval::Unit::steps, 1};
    setup_.log_row_ids = true;
    SmallTraining(setup_, data_, folder_ / "whole").run();
  }

  /// Updates in all after going on from update `step` of the whole run with `streams` rows an update.
  int64_t go_on(int64_t step, int64_t streams) {
    setup_.counts_from = folder_ / "whole" / ("checkpoint-" + std::to_string(step));
    setup_.streams_per_update = streams;
    return SmallTraining(setup_, data_, folder_ / "rest").run(setup_.counts_from).steps;
  }

  TemporaryFolder folder_;
  SmallData data_;
  SmallSetup setup_ = small(true, at::kFloat, true);
};

TEST_F(ResumeWithOtherUpdates, LargerOnes) {
  EXPECT_EQ(go_on(2, 4), 2 + 2);
  EXPECT_EQ(in_sets_of(4, logged_rows(folder_ / "rest")), in_sets_of(4, logged_rows(folder_ / "whole"), 2));
}

TEST_F(ResumeWithOtherUpdates, SmallerOnes) {
  EXPECT_EQ(go_on(4, 1), 4 + 4);
  EXPECT_EQ(in_sets_of(2, logged_rows(folder_ / "rest")), in_sets_of(2, logged_rows(folder_ / "whole"), 4));
}

TEST_F(ResumeWithOtherUpdates, RowsThatComeTwiceAreSaid) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(go_on(3, 4), 3 + 2);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("2 rows of epoch 0 are trained on twice"));
  EXPECT_EQ(in_sets_of(4, logged_rows(folder_ / "rest")), in_sets_of(4, logged_rows(folder_ / "whole"), 2));
}

/// A run that died after its last checkpoint has logged rows that are trained on again.
TEST_F(ResumeWithOtherUpdates, RowsLoggedBeyondTheCheckpointGo) {
  const auto whole = logged_rows(folder_ / "whole");
  setup_.counts_from = folder_ / "whole" / "checkpoint-4";
  SmallTraining(setup_, data_, folder_ / "whole").run(setup_.counts_from);
  EXPECT_EQ(logged_rows(folder_ / "whole"), whole);
}

TEST_F(ResumeWithOtherUpdates, AWholeRunHasNothingLeft) { EXPECT_EQ(go_on(6, 4), 6); }

/// A full training at a rate at which the held-out loss falls first and rises then.
SmallSetup overfitting() {
  SmallSetup setup = small(false, at::kFloat, true);
  setup.max_steps = 60;
  setup.schedule = {.type = "constant", .learning_rate = 0.003};
  setup.eval = {Interval::Unit::steps, 1};
  setup.load_best_model_at_end = true;
  setup.early_stopping_patience = 3;
  return setup;
}

TEST(ResumeOfEvaluation, EarlyStoppingCountsOnAndTheBestComesBack) {
  const TemporaryFolder folder;
  const SmallData data(fixture("cases/rows7.jsonl"), 4), eval(fixture("cases/rows7.jsonl"), 3, 4);
  SmallSetup setup = overfitting();
  setup.save = {Interval::Unit::steps, 1};
  SmallTraining whole(setup, data, folder / "whole", {}, &eval);
  const auto summary = whole.run();
  const auto evals = history(folder / "whole", "eval_loss");
  ASSERT_LT(summary.steps, 60) << "the held-out loss never rose";
  ASSERT_GE(summary.steps, 4);
  const double best = *std::min_element(evals.begin(), evals.end());
  EXPECT_EQ(summary.best_eval_loss, best);
  EXPECT_EQ(evals.at(evals.size() - 4), best);  // three worse ones after it
  EXPECT_NEAR(whole.loss_of(eval), best, 1e-6 * best);

  for (const int64_t back : {1, 2}) {  // with so many updates still to come
    const auto checkpoint = folder / "whole" / ("checkpoint-" + std::to_string(summary.steps - back));
    SmallTraining rest(setup, data, folder / "rest", {}, &eval);
    const auto resumed = rest.run(checkpoint);
    EXPECT_EQ(resumed.steps, summary.steps);
    EXPECT_EQ(resumed.best_eval_loss, best);
    EXPECT_EQ(history(folder / "rest", "eval_loss"), evals);
    const auto wanted = whole.trained_values(), found = rest.trained_values();
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::equal(found[i], wanted[i]));
  }
}

/// Case F01: rows 1 to 6 in order, a row an update.
SmallSetup f01() {
  SmallSetup setup;
  setup.is_adamw = true;
  setup.schedule = {.type = "cosine", .learning_rate = 0.01, .warmup_steps = 2};
  setup.save = {Interval::Unit::steps, 3};
  setup.settings = {{"learning_rate", "0.01"}};
  return setup;
}

TEST(CaseF01, LossesAreTheKnownOnesAndResumedOnesTheirBits) {
  const io::Json expected = io::read_json_file(fixture("cases/F01_expected.json"));
  const auto wanted = expected.at("uninterrupted_from_0").at("loss_per_step").get<std::vector<double>>();
  const auto rates = expected.at("lr_if_warmup_counts_from_0").get<std::vector<double>>();
  const TemporaryFolder folder;
  const SmallData rows(fixture("cases/rows7.jsonl"), 6);
  SmallTraining(f01(), rows, folder / "whole").run();
  const auto losses = history(folder / "whole", "loss"), found = history(folder / "whole", "learning_rate");
  ASSERT_EQ(losses.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(losses[i], wanted[i], 1e-5 * wanted[i]) << "step " << i + 1;
    EXPECT_NEAR(found[i], rates[i], 1e-8) << "step " << i + 1;
  }
  SmallTraining(f01(), rows, folder / "rest").run(folder / "whole/checkpoint-3");
  EXPECT_EQ(history(folder / "rest", "loss"), losses);
}

TEST(CaseF01, AChangedRateWinsAndIsSaid) {
  const TemporaryFolder folder;
  const SmallData rows(fixture("cases/rows7.jsonl"), 6);
  SmallTraining(f01(), rows, folder / "whole").run();
  SmallSetup changed = f01();
  changed.schedule.learning_rate = 0.002;
  changed.settings["learning_rate"] = "0.002";
  ::testing::internal::CaptureStderr();
  SmallTraining(changed, rows, folder / "rest").run(folder / "whole/checkpoint-3");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("learning_rate: 0.01 in the checkpoint, 0.002 now"), std::string::npos) << said;
  const auto before = history(folder / "whole", "learning_rate"),
             after = history(folder / "rest", "learning_rate");
  ASSERT_EQ(after.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(after[i], before[i] * (i < 3 ? 1 : 0.2), 1e-12) << i;
}

}  // namespace
}  // namespace duoka::testing
