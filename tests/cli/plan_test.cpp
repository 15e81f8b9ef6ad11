// SPDX-License-Identifier: Apache-2.0
// `duoka plan`: a config.json is enough, and what it prints fits a terminal.
#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/run_duoka.h"
#include "support/test_files.h"

namespace duoka::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

/// 7 thousand million parameters, and no weights beside it.
constexpr const char* config = R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
  "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
  "max_position_embeddings": 4096})";

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() { write_file(folder_ / "config.json", config); }

  Outcome plan(const Words& more) const {
    Words words{"plan",      "--model",         folder_.path().string(),        "finetuning_type=full",
                "bf16=true", "cutoff_len=4096", "per_device_train_batch_size=1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_duoka(words);
  }
  std::string refused(const Words& more) const {
    const Outcome outcome = plan(more);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  }

  TemporaryFolder folder_;
};

size_t longest_line(const std::string& out) {
  std::istringstream lines(out);
  size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST_F(PlanTest, TokensBeyondCountingAreRefused) {
  EXPECT_THAT(refused({"--cards", "2", "tensor_parallel_size=2", "cutoff_len=1000000000",
                       "per_device_train_batch_size=1000000000"}),
              AllOf(HasSubstr("1e+18 tokens"), HasSubstr("at most 4294967296")));
  // The sums of logits are chunks of rows, of which there are millions; none is walked over.
  const Outcome most = plan(
      {"--cards", "2", "tensor_parallel_size=2", "cutoff_len=1000000000", "per_device_train_batch_size=4"});
  ASSERT_EQ(most.exit_code, 0) << most.all();
  EXPECT_THAT(most.out,
              AllOf(HasSubstr("4 rows of 1,000,000,000 tokens"), Not(::testing::ContainsRegex(" -[0-9]"))));
}

TEST_F(PlanTest, PrintsMemoryOfACardAndWhatItSends) {
  const Outcome outcome = plan({"--cards", "8", "--link-gb-s", "400,50"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  // 6.738e9 parameters: 2, 4 and 12 bytes each; all-reduced in f32 over eight: 2 * 7/8 * 4 bytes each.
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("6,738,415,616 parameters, 6,738,415,616 trained, computing in bf16"),
            HasSubstr("8 cards on 1 host: data 8"), HasSubstr("8 rows of 4,096 tokens"),
            HasSubstr("  parameters                    12.6\n"),
            HasSubstr("  gradients                     25.1\n"),
            HasSubstr("  optimizer state               75.3\n"),
            HasSubstr("gradients, all-reduce     8 data                      34      43.9      0.12\n")));
  EXPECT_LE(longest_line(outcome.out), 80u);
}

TEST_F(PlanTest, OfAPipelineItShowsSomePlacesAndTheIdleTime) {
  const Outcome outcome =
      plan({"--cards", "256", "--hosts", "32", "tensor_parallel_size=8", "pipeline_parallel_size=16",
            "gradient_accumulation_steps=32", "zero_stage=1", "--link-gb-s=400,50"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("data 2 x tensor 8 x pipeline 16, 1f1b, ZeRO-1"), HasSubstr("place 16\n"),
                    HasSubstr("pipeline, send"), HasSubstr(" *\n"), HasSubstr("idle in the pipeline: ")));
  EXPECT_LE(longest_line(outcome.out), 80u);
}

TEST_F(PlanTest, AdaptersTrainWithoutTheWeights) {
  const Outcome outcome = plan({"finetuning_type=lora", "lora_rank=8", "--cards", "2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out, HasSubstr("19,988,480 trained"));
}

TEST_F(PlanTest, ListsLayoutsThatFitBestFirst) {
  const Words rows{"--cards", "16", "--hosts", "2", "gradient_accumulation_steps=16"};
  const auto with_memory = [&](const std::string& gib) {
    Words words = rows;
    words.insert(words.end(), {"--memory-gib", gib});
    const Outcome outcome = plan(words);
    EXPECT_EQ(outcome.exit_code, gib == "1" ? 1 : 0) << outcome.all();
    EXPECT_LE(longest_line(outcome.out), 80u);
    return outcome.out;
  };
  const std::string found = with_memory("40");
  EXPECT_THAT(found, AllOf(HasSubstr(" layouts fit into 40.0 GiB a card"),
                           HasSubstr(" data tensor context pipe ZeRO")));
  std::istringstream lines(found.substr(found.find(" data tensor")));
  std::string line;
  std::getline(lines, line);
  double last_between = 0;
  int count = 0;
  while (std::getline(lines, line) && !line.empty()) {
    std::istringstream words(line);
    std::string word, memory;
    for (int i = 0; i < 7; ++i) words >> word;
    double between = 0;
    words >> memory >> between;
    EXPECT_LE(std::stod(memory), 40) << line;
    EXPECT_GE(between, last_between - 0.01) << line;
    last_between = between;
    ++count;
  }
  EXPECT_GT(count, 3);
  const std::string smallest = with_memory("1");
  EXPECT_THAT(smallest, AllOf(HasSubstr("no layout fits into 1.00 GiB a card; the one that needs least:\n"),
                              HasSubstr("what would help: --memory-gib ")));
  const size_t said = smallest.find("--memory-gib ") + 13;
  EXPECT_THAT(with_memory(smallest.substr(said, smallest.find(',', said) - said)), HasSubstr("fits into "));
}

TEST_F(PlanTest, ListsShardedStateOnOneHost) {
  const Outcome outcome = plan({"--cards", "4", "--memory-gib", "60"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out, HasSubstr("\n    4      1       1    1    1    4 ")) << outcome.out;
}

TEST_F(PlanTest, OneCardHasOneLayoutThatSharesNothing) {
  const Outcome outcome = plan({"--cards", "1", "--memory-gib", "200"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("1 layout fits into 200 GiB a card\n"),
                    HasSubstr("\n    1      1       1    1    0    - "), Not(HasSubstr("1 cards"))));
}

TEST_F(PlanTest, NoLayoutWithWholeMicroBatchesNamesHowManyWouldDo) {
  const Outcome outcome = plan({"--cards", "62", "tensor_parallel_size=2", "pipeline_parallel_size=31",
                                "--memory-gib", "200", "--hosts", "31"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.all();
  EXPECT_THAT(outcome.out, HasSubstr("what would: gradient_accumulation_steps a multiple of 62\n"));
}

TEST_F(PlanTest, HelpExplainsItsFlags) {
  const Outcome help = run_duoka({"plan", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* flag :
       {"--model FOLDER", "--cards N", "--hosts M", "--link-gb-s INSIDE,BETWEEN", "--memory-gib X"})
    EXPECT_THAT(help.out, HasSubstr(std::string("\n  ") + flag + "\n      "));
  EXPECT_THAT(help.out, Not(HasSubstr("required")));
  EXPECT_THAT(run_duoka({"train", "--help"}).out, HasSubstr("\n  --pin\n      With --cards: "));
  const Outcome without = run_duoka({"plan"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("not given: model_name_or_path, or --model FOLDER"));
}

TEST_F(PlanTest, RefusesWhatCannotWorkWithWhatWould) {
  EXPECT_THAT(refused({"--cards", "48", "tensor_parallel_size=3"}),
              HasSubstr("sizes that work: 1, 2, 4, 8, 16, 32"));
  EXPECT_THAT(refused({"--cards", "6", "tensor_parallel_size=4"}), HasSubstr("does not divide the 6"));
  EXPECT_THAT(refused({"--cards", "8", "pipeline_parallel_size=1000000000"}),
              HasSubstr("does not divide the 8"));
  EXPECT_THAT(refused({"--cards", "8", "pipeline_parallel_size=2", "gradient_accumulation_steps=1000000000"}),
              HasSubstr("gradient_accumulation_steps = 1000000000; an estimate is made for at most 2097152"));
  EXPECT_THAT(refused({"--cards", "64", "pipeline_parallel_size=64"}),
              HasSubstr("lower pipeline_parallel_size"));
  EXPECT_THAT(refused({"--cards", "8", "--hosts", "3"}),
              HasSubstr("--hosts: found 3; wanted a number that divides the 8"));
  EXPECT_THAT(refused({"--link-gb-s", "400"}), HasSubstr("wanted two numbers"));
  EXPECT_THAT(refused({"--memory-gib", "much"}),
              HasSubstr("--memory-gib: found 'much'; wanted a number above 0"));
  EXPECT_THAT(refused({"--host", "2"}),
              HasSubstr("unknown flag '--host'; flags are --model FOLDER, --cards N, --hosts M"));
  EXPECT_THAT(refused({"--pin"}), HasSubstr("unknown flag '--pin'"));
  EXPECT_THAT(refused({"zero_stag=3"}), HasSubstr("zero_stage"));
  EXPECT_EQ(run_duoka({"train", "--hosts", "2"}).exit_code, 2);
}

}  // namespace
}  // namespace duoka::testing
