// SPDX-License-Identifier: Apache-2.0
// What a run says while it works: evaluations (H03), lines in files and the bar on a terminal (H04).
#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/cli_files.h"

namespace duoka::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class OutputTest : public ::testing::Test {
 protected:
  Outcome train(const std::string& output, const Words& more, RunOptions options = {}) const {
    return run_duoka(shop_.train(output, more), std::move(options));
  }
  std::vector<json> log_of(const std::string& output) const {
    std::vector<json> lines;
    for (const std::string& line : lines_of(read_text_file(shop_ / output / "trainer_log.jsonl")))
      lines.push_back(json::parse(line));
    return lines;
  }
  std::vector<int> evaluated_steps(const std::string& output) const {
    std::vector<int> steps;
    for (const json& line : log_of(output))
      if (line.contains("eval_loss")) steps.push_back(line["current_steps"]);
    return steps;
  }

  Workshop shop_;
};

/// An epoch of rows7, a row an update: 7 updates.
const Words one_by_one{"per_device_train_batch_size=1", "num_train_epochs=1"};

Words one_by_one_and(const Words& more) {
  Words words = one_by_one;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string rows7_for_evaluation() { return "eval_dataset=" + Workshop::case_file("rows7.jsonl").string(); }

TEST_F(OutputTest, H03IntervalBeyondTheRunWarnsAndEvaluatesAtTheEnd) {
  const Outcome outcome = train("out", one_by_one_and({"eval_steps=500", rows7_for_evaluation()}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("warning: eval_steps: 500 is more than the 7 updates of this run"));
  EXPECT_THAT(evaluated_steps("out"), ElementsAre(7));
  EXPECT_THAT(lines_with(outcome.err, "eval step=7 eval_loss="), SizeIs(1));
}

/// The last of the four updates has one row of the seven.
TEST_F(OutputTest, EpochCountsRows) {
  const Outcome outcome = train("out", {"per_device_train_batch_size=2", "num_train_epochs=1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  std::vector<std::string> epochs;
  for (const std::string& line : lines_with(outcome.err, "step=")) epochs.push_back(field(line, "epoch"));
  EXPECT_THAT(epochs, ElementsAre("0.286", "0.571", "0.857", "1.000"));
}

TEST_F(OutputTest, H03SmallShareHoldsOutOneRow) {
  const Outcome outcome = train("out", one_by_one_and({"eval_steps=2", "val_size=0.01", "log_row_ids=true"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("6 rows to train on, 1 to evaluate on"));
  std::set<int> trained;
  for (const std::string& line : lines_of(read_text_file(shop_ / "out/row_ids.jsonl")))
    trained.insert(json::parse(line)["ranks"][0][0].get<int>());
  EXPECT_THAT(trained, SizeIs(6)) << "the row held out was trained";
  EXPECT_THAT(evaluated_steps("out"), ElementsAre(2, 4, 6));
}

TEST_F(OutputTest, H03HoldingOutEverythingIsRefused) {
  const Outcome outcome = train("out", one_by_one_and({"val_size=7"}));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("holds out 7 of 7 rows and leaves none to train on"));
}

TEST_F(OutputTest, H03MissingEvaluationFileIsAnErrorBeforeAnythingIsLoaded) {
  const Outcome outcome = train("out", {"eval_dataset=no_such_rows.jsonl"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("'no_such_rows.jsonl'"));
  EXPECT_THAT(lines_of(outcome.err), SizeIs(1));
}

TEST_F(OutputTest, H03EverySecondUpdateAndAtTheEndWithoutChangingTheTraining) {
  const Outcome plain = train("plain", one_by_one);
  const Outcome evaluated = train("evaluated", one_by_one_and({"eval_steps=2", rows7_for_evaluation()}));
  ASSERT_EQ(plain.exit_code, 0) << plain.all();
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.all();
  EXPECT_THAT(evaluated_steps("evaluated"), ElementsAre(2, 4, 6, 7));
  EXPECT_THAT(evaluated_steps("plain"), IsEmpty());
  std::vector<double> losses, losses_with;
  for (const json& line : log_of("plain")) losses.push_back(line["loss"]);
  for (const json& line : log_of("evaluated"))
    if (line.contains("loss")) losses_with.push_back(line["loss"]);
  EXPECT_THAT(losses, SizeIs(7));
  EXPECT_EQ(losses, losses_with);
}

TEST_F(OutputTest, H04FileOfFourRanksHoldsEachUpdateOnceInPlainLines) {
  const Outcome outcome = train("out", {"max_steps=20", "eval_steps=500",
                                        "eval_dataset=" + shop_.check_row().string(), "--cards", "4"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(Not(HasSubstr("\r")), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(outcome.out, IsEmpty());
  const auto steps = lines_with(outcome.err, "step=");
  ASSERT_THAT(steps, SizeIs(20));
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(field(steps[i], "step"), std::to_string(i + 1));
    for (const char* key : {"total", "epoch", "loss", "lr", "grad_norm", "tokens_per_second", "total_tokens"})
      EXPECT_NO_THROW(std::stod(field(steps[i], key))) << key << " of " << steps[i];
    EXPECT_EQ(count_of(steps[i], " "), count_of(steps[i], "=") - 1) << "a word is no key=value: " << steps[i];
  }
  // What all ranks would say is said once.
  std::vector<std::string> lines = lines_of(outcome.err);
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(std::adjacent_find(lines.begin(), lines.end()), lines.end()) << outcome.err;
  EXPECT_EQ(count_of(outcome.err, "warning: eval_steps: 500"), 1);
  EXPECT_THAT(outcome.err, Not(HasSubstr("[rank ")));
  EXPECT_THAT(log_of("out"), SizeIs(21));
}

TEST_F(OutputTest, H04LinesAreThereWhileTheRunGoesOn) {
  Running running(shop_.train("out", {"max_steps=1000000", "save_strategy=no"}));
  EXPECT_TRUE(running.wait_for_text("step=3 "));
  EXPECT_THAT(read_text_file(shop_ / "out/trainer_log.jsonl"), HasSubstr("\"current_steps\":2,"));
  running.send(SIGTERM);
  EXPECT_EQ(running.wait().exit_code, 128 + SIGTERM);
}

/// Runs `duoka words…` as "$@" of a line of the shell.
Outcome run_in_shell(const std::string& line, const Words& words) {
  Words all{"-c", line, "sh", duoka_binary()};
  all.insert(all.end(), words.begin(), words.end());
  return run_duoka(all, {.program = "sh"});
}

/// Files must not be given the numbers of streams that were closed at the start.
TEST_F(OutputTest, ClosedStreamsWriteIntoNoFile) {
  ASSERT_EQ(train("open", {"max_steps=2"}).exit_code, 0);
  for (const char* cards : {"1", "2"}) {
    const Words words = shop_.train("closed", {"max_steps=2", "overwrite_output_dir=true", "--cards", cards});
    const Outcome outcome = run_in_shell("exec \"$@\" <&- >&- 2>&-", words);
    ASSERT_EQ(outcome.exit_code, 0) << cards;
    EXPECT_EQ(outcome.all(), "exit code 0\n--- stdout\n\n--- stderr\n");
    for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
      EXPECT_EQ(std::filesystem::file_size(shop_ / "closed" / file),
                std::filesystem::file_size(shop_ / "open" / file));
  }
}

TEST_F(OutputTest, AnAnswerThatCannotBeWrittenIsAnError) {
  const Words words{"generate", Workshop::model_word(), "prompt=a", "max_new_tokens=3"};
  const Outcome full = run_in_shell("exec \"$@\" > /dev/full", words);
  EXPECT_EQ(full.exit_code, 7) << full.all();
  EXPECT_THAT(full.err, HasSubstr("error: SystemError: cannot write to standard output"));
  const Outcome nobody_reads = run_in_shell("(\"$@\"; echo ended with $? >&2) | true", words);
  EXPECT_EQ(nobody_reads.err, "ended with 0\n");
}

/// What stood on the status line, one after another: what follows an erased line, up to the next control.
std::vector<std::string> status_lines(const std::string& screen) {
  const std::string erase = "\r\x1b[K";
  std::vector<std::string> shown;
  for (size_t at = screen.find(erase); at != std::string::npos; at = screen.find(erase, at + 1)) {
    const size_t begin = at + erase.size();
    const std::string line = screen.substr(begin, screen.find_first_of("\r\n", begin) - begin);
    if (!line.empty() && line[0] >= '0' && line[0] <= '9') shown.push_back(line);
  }
  return shown;
}

TEST_F(OutputTest, H04BarFitsTheTerminal) {
  for (const int columns : {60, 120}) {
    const Outcome outcome = train("out", {"max_steps=20", "overwrite_output_dir=true"},
                                  {.environment = {"TERM=xterm"}, .terminal_columns = columns});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
    const auto bars = status_lines(outcome.out);
    EXPECT_GE(bars.size(), 20u);
    EXPECT_THAT(outcome.out, HasSubstr("20/20 [#####"));
    for (const std::string& bar : bars) EXPECT_LT(bar.size(), static_cast<size_t>(columns)) << bar;
    EXPECT_EQ(count_of(outcome.out, "\r\x1b[Kstep="), 20) << "above the bar, as in a file\n" << outcome.out;
    // Gone before the last words: what remains are whole lines.
    const std::string last = outcome.out.substr(outcome.out.find("trained 20 updates"));
    EXPECT_THAT(last, Not(HasSubstr("20/20"))) << outcome.out;
  }
}

TEST_F(OutputTest, ATerminalMovesBeforeTheFirstUpdateAndDuringEvaluations) {
  const Outcome outcome = train("out",
                                one_by_one_and({"max_steps=2", "eval_on_start=true", "eval_steps=1",
                                                "per_device_eval_batch_size=3", rows7_for_evaluation()}),
                                {.environment = {"TERM=xterm"}, .terminal_columns = 60});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  const std::string erase = "\r\x1b[K";
  size_t at = 0;
  for (const char* line :
       {"evaluating 1/3", "evaluating 2/3", "evaluating 3/3", "eval step=0 ", "0/2 in the first update",
        "1/2 [", "evaluating 1/3", "1/2 [", "eval step=1 ", "2/2 ["}) {
    at = outcome.out.find(erase + line, at);
    ASSERT_NE(at, std::string::npos) << line << "\n" << outcome.out;
  }
}

TEST_F(OutputTest, H04DumbTerminalGetsPlainLines) {
  const Outcome outcome =
      train("out", {"max_steps=3"}, {.environment = {"TERM=dumb"}, .terminal_columns = 60});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(lines_with(outcome.out, "step="), SizeIs(3));
  EXPECT_EQ(count_of(outcome.out, "\r"), count_of(outcome.out, "\r\n"));  // the terminal's own
}

TEST_F(OutputTest, NoColorOnATerminalMarksTrainedTokensByBrackets) {
  const Words words = shop_.inspect(Workshop::case_file("rows7.jsonl"));
  const Outcome coloured = run_duoka(words, {.environment = {"TERM=xterm"}, .terminal_columns = 100});
  EXPECT_THAT(coloured.out, HasSubstr("\x1b[32m")) << coloured.all();
  const Outcome plain =
      run_duoka(words, {.environment = {"TERM=xterm", "NO_COLOR=1"}, .terminal_columns = 100});
  EXPECT_THAT(plain.out, AllOf(HasSubstr("[s][at]"), Not(HasSubstr("\x1b[3")))) << plain.all();
}

TEST_F(OutputTest, StartSaysWhatRunsOnWhat) {
  const Outcome outcome = train("out", {"max_steps=2", "learning_rate=1e-3", "--cards", "2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(
      outcome.err,
      AllOf(HasSubstr("\n  learning_rate: 0.001\n"), HasSubstr("\n  model       llama, 39,072 parameters"),
            HasSubstr("\n  trained     8,192 parameters (20.97 %)"),
            ContainsRegex("\n  ranks       2 on CPU, over gloo( \\+ cma)?\n"),
            HasSubstr("\n  data        7 rows to train on, none to evaluate on\n"),
            HasSubstr("\n  updates     2, each of 16 rows (8 per card x 1 accumulated x 2 cards)\n")));
  EXPECT_THAT(outcome.err, Not(HasSubstr("lora_rank:"))) << "an option that is as by default";
}

TEST_F(OutputTest, RunLeavesItsRecords) {
  ASSERT_EQ(train("out", {"max_steps=3", rows7_for_evaluation()}).exit_code, 0);
  for (const char* file :
       {"train_results.json", "eval_results.json", "all_results.json", "trainer_state.json"})
    EXPECT_FALSE(json::parse(read_text_file(shop_ / "out" / file)).empty()) << file;
  EXPECT_THAT(read_text_file(shop_ / "out/training_loss.svg"), HasSubstr("</svg>"));
  EXPECT_FALSE(std::filesystem::is_empty(shop_ / "out/runs"));
}

TEST_F(OutputTest, ProfilerStepsMakeATraceOfThoseUpdates) {
  const Words two{"per_device_train_batch_size=1", "max_steps=5", "--cards", "2", "pipeline_parallel_size=2"};
  Words words = two;
  words.insert(words.end(), {"profiler_steps=2", "profiler_steps_start=2"});
  const Outcome outcome = train("out", words);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(lines_with(outcome.err, "trace in "), SizeIs(1));
  std::map<int, std::vector<int>> updates;  // [rank]: of each optimizer step
  for (const json& event : json::parse(read_text_file(shop_ / "out/trace.json")))
    if (event["name"] == "optimizer step") updates[event["pid"]].push_back(event["args"]["update"]);
  EXPECT_EQ(updates, (std::map<int, std::vector<int>>{{0, {3, 4}}, {1, {3, 4}}}));
  EXPECT_THAT(names_in(shop_ / "out", "trace"), ElementsAre("trace.json"));

  words = two;
  words.insert(words.end(), {"profiler_steps=2", "profiler_steps_start=5", "overwrite_output_dir=true"});
  const Outcome late = train("out", words);
  ASSERT_EQ(late.exit_code, 0) << late.all();
  EXPECT_THAT(late.err, HasSubstr("profiler_steps_start: 5 leaves none of the 5 updates"));
  EXPECT_THAT(names_in(shop_ / "out", "trace"), IsEmpty());
}

}  // namespace
}  // namespace duoka::testing
