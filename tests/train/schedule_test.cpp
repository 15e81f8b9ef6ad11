// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/schedule.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/io/json.h"
#include "support/test_files.h"

namespace duoka::train {
namespace {

using ::testing::HasSubstr;

/// lr_scheduler_kwargs, as transformers calls them.
void set_option(ScheduleOptions& o, const std::string& key, const io::Json& value) {
  if (key == "num_cycles")
    o.num_cycles = value;
  else if (key == "min_lr")
    o.min_lr = o.plateau_min_lr = value;
  else if (key == "min_lr_rate" || key == "min_lr_ratio")
    o.min_lr_rate = value;
  else if (key == "lr_end")
    o.lr_end = value;
  else if (key == "power")
    o.power = value;
  else if (key == "timescale")
    o.timescale = value;
  else if (key == "num_decay_steps")
    o.num_decay_steps = value;
  else if (key == "num_stable_steps")
    o.num_stable_steps = value;
  else if (key == "warmup_type")
    o.warmup_type = value;
  else if (key == "decay_type")
    o.decay_type = value;
  else if (key == "patience")
    o.patience = value;
  else if (key == "factor")
    o.factor = value;
  else if (key == "cooldown")
    o.cooldown = value;
  else if (key == "threshold")
    o.threshold = value;
  else if (key == "threshold_mode")
    o.is_threshold_relative = value == "rel";
  else if (key == "mode")
    o.greater_is_better = value == "max";
  else
    FAIL() << "the recording uses " << key << ", which this test does not know";
}

ScheduleOptions options_of(const io::Json& golden, const io::Json& row, const std::string& type) {
  ScheduleOptions options;
  options.type = type;
  options.learning_rate = golden["learning_rate"];
  options.total_steps = golden["total_steps"];
  options.warmup_steps = row.value("warmup_steps", 0);
  for (const auto& [key, value] : row["kwargs"].items()) set_option(options, key, value);
  return options;
}

TEST(Schedule, EqualsTransformersStepByStep) {
  const io::Json golden = io::read_json_file(testing::fixture("golden/schedules.json"));
  std::set<std::string> seen{"reduce_lr_on_plateau"};
  for (const io::Json& row : golden["curves"]) {
    seen.insert(row["type"].get<std::string>());
    const auto schedule = make_schedule(options_of(golden, row, row["type"]));
    const std::vector<double> rates = row["rates"];
    for (size_t step = 0; step < rates.size(); ++step)
      EXPECT_NEAR(schedule->learning_rate(static_cast<int64_t>(step)), rates[step], 1e-15)
          << row.dump() << " step " << step;
    EXPECT_TRUE(schedule->state().empty());
  }
  EXPECT_EQ(seen.size(), schedule_types().size()) << "a type without a recording";
}

TEST(Schedule, PlateauEqualsTorchAlsoWhenStoppedAndResumed) {
  const io::Json golden = io::read_json_file(testing::fixture("golden/schedules.json"));
  for (const io::Json& row : golden["plateau"]) {
    const ScheduleOptions options = options_of(golden, row, "reduce_lr_on_plateau");
    auto schedule = make_schedule(options);
    const std::vector<double> metrics = row["metrics"], rates = row["rates"];
    for (size_t i = 0; i < metrics.size(); ++i) {
      schedule->observe(metrics[i]);
      EXPECT_EQ(schedule->learning_rate(0), rates[i]) << row.dump() << " metric " << i;
      auto resumed = make_schedule(options);
      resumed->load_state(schedule->state());
      schedule = std::move(resumed);
    }
  }
}

TEST(Schedule, CaseF01WarmUpCountsFromZero) {
  const io::Json wanted =
      io::read_json_file(testing::fixture("cases/F01_expected.json"))["lr_if_warmup_counts_from_0"];
  const auto schedule =
      make_schedule({.type = "cosine", .learning_rate = 0.01, .warmup_steps = 2, .total_steps = 6});
  for (size_t step = 0; step < wanted.size(); ++step)
    EXPECT_NEAR(schedule->learning_rate(static_cast<int64_t>(step)), wanted[step].get<double>(), 5e-10);
}

TEST(Schedule, PlateauStateScalesWithAChangedRateAndIsChecked) {
  ScheduleOptions options{.type = "reduce_lr_on_plateau", .learning_rate = 0.1, .patience = 0};
  const auto schedule = make_schedule(options);
  schedule->observe(1);
  EXPECT_FALSE(make_schedule(options)->state().contains("best"));  // infinite: not for JSON
  schedule->observe(2);
  ASSERT_DOUBLE_EQ(schedule->learning_rate(0), 0.01);

  options.learning_rate = 0.2;
  const auto other = make_schedule(options);
  other->load_state(schedule->state());
  EXPECT_DOUBLE_EQ(other->learning_rate(0), 0.02);

  EXPECT_THROW(make_schedule({.type = "constant"})->load_state(schedule->state()), ConfigError);
  EXPECT_THROW(other->load_state({}), ConfigError);
  EXPECT_THROW(other->load_state({{"rate", 1.0}}), FormatError);
  make_schedule({.type = "constant"})->load_state({});
}

TEST(Schedule, NamesWhatIsWrong) {
  const auto message = [](const ScheduleOptions& options) {
    return testing::message_of<ConfigError>([&] { make_schedule(options); });
  };
  EXPECT_THAT(message({.type = "cosin", .total_steps = 5}), HasSubstr("did you mean cosine?"));
  EXPECT_THAT(message({.type = "linear"}), HasSubstr("total_steps = 0"));
  EXPECT_THAT(message({.type = "cosine_with_min_lr", .total_steps = 5}),
              HasSubstr("min_lr not given and min_lr_rate not given"));
  EXPECT_THAT(message({.type = "polynomial", .learning_rate = 1e-8, .total_steps = 5}),
              HasSubstr("lr_end = 1e-07"));
  EXPECT_THAT(message({.type = "warmup_stable_decay", .total_steps = 5}),
              HasSubstr("without num_decay_steps"));
  EXPECT_THAT(
      message({.type = "warmup_stable_decay", .total_steps = 5, .num_decay_steps = 1, .decay_type = "sine"}),
      HasSubstr("decay_type = sine"));
  EXPECT_THAT(message({.type = "warmup_stable_decay", .total_steps = 5, .num_decay_steps = 6}),
              HasSubstr("num_decay_steps = 6; wanted together at most the 5 updates"));
  EXPECT_THAT(message({.type = "constant", .learning_rate = -1}), HasSubstr("learning_rate = -1"));
  EXPECT_THAT(message({.type = "reduce_lr_on_plateau", .factor = 1}),
              HasSubstr("factor of reduce_lr_on_plateau = 1"));
}

TEST(Schedule, WarmUpStepsFromANumberOrAShare) {
  EXPECT_EQ(resolve_warmup_steps(0, 0, 100), 0);
  EXPECT_EQ(resolve_warmup_steps(7, 0.5, 100), 7);
  EXPECT_EQ(resolve_warmup_steps(0, 0.03, 110), 4);  // rounded up
  EXPECT_EQ(resolve_warmup_steps(0.1, 0, 100), 10);
  EXPECT_THROW(resolve_warmup_steps(-1, 0, 100), ConfigError);
  EXPECT_THROW(resolve_warmup_steps(0, 1.5, 100), ConfigError);
}

}  // namespace
}  // namespace duoka::train
