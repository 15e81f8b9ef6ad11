// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/io/json.h"
#include "support/test_files.h"

namespace duoka::train {
namespace {

StepReport report_at(int64_t step) {
  StepReport report;
  report.step = step;
  report.total_steps = 20;
  report.epoch = 0.25;
  report.loss = 1.5;
  report.learning_rate = 1e-4;
  report.grad_norm = 0.75;
  report.tokens_per_second = 1234.56;
  report.total_tokens = 5000;
  report.elapsed_seconds = 3661;
  report.seconds_per_step = 2;
  return report;
}

TEST(TrainerLog, WritesLlamaFactorysKeysAtOnce) {
  const testing::TemporaryFolder out;
  TrainerLog log(out.path(), 0);
  log.write(report_at(5));
  const auto lines = testing::read_lines(out / "trainer_log.jsonl");  // while it is open: flushed
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(
      lines[0],
      R"({"current_steps":5,"total_steps":20,"loss":1.5,"lr":0.0001,"grad_norm":0.75,"epoch":0.25,"percentage":25.0,)"
      R"("elapsed_time":"1:01:01","remaining_time":"0:00:30","tokens_per_second":1234.6,"total_tokens":5000})");
  log.write_evaluation(report_at(5), 2.5);
  EXPECT_THAT(testing::read_lines(out / "trainer_log.jsonl")[1], ::testing::HasSubstr(R"("eval_loss":2.5)"));
}

TEST(TrainerLog, AResumedRunContinuesBehindItsCheckpoint) {
  const testing::TemporaryFolder out;
  const auto path = out / "trainer_log.jsonl";
  {
    TrainerLog log(out.path(), 0);
    for (int64_t step = 1; step <= 4; ++step) log.write(report_at(step));
  }
  testing::write_file(path, read_text_file(path) + R"({"current_steps": 5, "tot)");  // killed while writing
  {
    TrainerLog log(out.path(), 3);
    log.write(report_at(4));
    log.write(report_at(5));
  }
  const auto lines = testing::read_lines(path);
  ASSERT_EQ(lines.size(), 5u);
  for (size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(io::parse_json(lines[i], "log")["current_steps"].get<size_t>(), i + 1);
  TrainerLog anew(out.path(), 0);
  EXPECT_TRUE(testing::read_lines(path).empty());
}

TEST(TrainerLog, SaysWhereItCannotWrite) {
  EXPECT_THAT(testing::message_of<SystemError>([] { TrainerLog("/nonexistent/folder", 0); }),
              ::testing::HasSubstr("/nonexistent/folder"));
}

TEST(Results, AreWrittenBySplitAndMerged) {
  const testing::TemporaryFolder out;
  write_results(out.path(), "train", {{"epoch", 1}, {"train_loss", 2.5}});
  write_results(out.path(), "eval", {{"epoch", 2}, {"eval_loss", 3.5}});
  EXPECT_EQ(io::read_json_file(out / "train_results.json")["train_loss"], 2.5);
  EXPECT_EQ(io::read_json_file(out / "eval_results.json").size(), 2u);
  EXPECT_EQ(io::read_json_file(out / "all_results.json").dump(),
            R"({"epoch":2.0,"train_loss":2.5,"eval_loss":3.5})");
  testing::write_file(out / "all_results.json", "[]");
  EXPECT_THROW(write_results(out.path(), "train", {}), FormatError);
}

TEST(Results, SpeedIsPerSecond) {
  const Results results = speed_results("eval", 2, 5, 3);
  EXPECT_EQ(results,
            (Results{{"eval_runtime", 2}, {"eval_samples_per_second", 2.5}, {"eval_steps_per_second", 1.5}}));
  EXPECT_EQ(speed_results("eval", 0, 5, 3)[1].second, 0);
}

}  // namespace
}  // namespace duoka::train
