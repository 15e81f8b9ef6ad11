// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/trainer_state.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/io/json.h"
#include "support/test_files.h"

namespace duoka::train {
namespace {

TEST(TrainerState, HasHuggingFacesKeys) {
  const testing::TemporaryFolder folder;
  TrainerState state;
  state.global_step = 4;
  state.max_steps = 10;
  state.log_history = {{2, 0.1, {{"loss", 3.5}, {"learning_rate", 1e-4}}},
                       {4, 0.2, {{"eval_loss", std::numeric_limits<double>::quiet_NaN()}}}};
  write_trainer_state(folder / "trainer_state.json", state);
  const io::Json json = io::read_json_file(folder / "trainer_state.json");
  for (const char* key : {"best_global_step",
                          "best_metric",
                          "best_model_checkpoint",
                          "epoch",
                          "eval_steps",
                          "global_step",
                          "is_hyper_param_search",
                          "is_local_process_zero",
                          "is_world_process_zero",
                          "log_history",
                          "logging_steps",
                          "max_steps",
                          "num_input_tokens_seen",
                          "num_train_epochs",
                          "save_steps",
                          "stateful_callbacks",
                          "total_flos",
                          "train_batch_size",
                          "trial_name",
                          "trial_params"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json.size(), 20u);
  EXPECT_EQ(json["log_history"][0].dump(), R"({"epoch":0.1,"loss":3.5,"learning_rate":0.0001,"step":2})");
  EXPECT_TRUE(json["log_history"][1]["eval_loss"].is_null());
  EXPECT_TRUE(json["best_metric"].is_null());
}

TEST(TrainerState, ReadsWhatItWroteAndWhatTransformersWrites) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "trainer_state.json";
  testing::write_file(
      path,
      R"({"global_step": 3, "epoch": 0.5, "logging_steps": 0.1, "best_metric": null, "train_batch_size": null,
    "log_history": [{"loss": 2.0, "step": 3, "epoch": 0.5, "note": "text"}], "best_model_checkpoint": "out/checkpoint-3"})");
  TrainerState state = read_trainer_state(path);
  EXPECT_EQ(state.global_step, 3);
  EXPECT_EQ(state.best_metric, std::nullopt);
  EXPECT_EQ(state.best_model_checkpoint, "out/checkpoint-3");
  EXPECT_EQ(state.log_history[0].values.size(), 1u);
  state.best_metric = 0.25;
  state.best_global_step = 3;
  write_trainer_state(path, state);
  EXPECT_EQ(read_trainer_state(path).best_metric, 0.25);
  EXPECT_EQ(read_trainer_state(path).log_history[0].find("loss"), 2.0);
}

TEST(TrainerState, NamesFileAndKey) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "a.json", R"({"global_step": "three"})");
  EXPECT_THAT(testing::message_of<FormatError>([&] { read_trainer_state(folder / "a.json"); }),
              ::testing::AllOf(::testing::HasSubstr("a.json"), ::testing::HasSubstr("global_step")));
  EXPECT_THROW(read_trainer_state(folder / "none.json"), SystemError);
}

}  // namespace
}  // namespace duoka::train
