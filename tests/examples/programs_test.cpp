// SPDX-License-Identifier: Apache-2.0
// Each program of examples/ on one and on two CPU ranks: what it teaches holds.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/run_duoka.h"
#include "support/test_files.h"

namespace duoka::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ExamplesTest : public ::testing::Test {
 protected:
  /// What it prints, after checking that it ends well.
  std::string run(const std::string& example, std::vector<std::string> arguments, int ranks) const {
    arguments.insert(arguments.end(), {"--cards", std::to_string(ranks)});
    RunOptions options;
    options.program = fs::path(duoka_binary()).parent_path() / example;
    options.folder = folder_.path();
    options.environment = {"CUDA_VISIBLE_DEVICES="};  // the CPU, also where there is a card
    const Outcome outcome = run_duoka(arguments, options);
    EXPECT_EQ(outcome.exit_code, 0) << example << " --cards " << ranks << "\n" << outcome.all();
    return outcome.out;
  }

  TemporaryFolder folder_;
};

/// The number behind each `word`.
std::vector<double> numbers_after(const std::string& word, const std::string& out) {
  std::vector<double> numbers;
  const std::regex pattern(word + " +([-+.0-9e]+)");
  for (std::sregex_iterator found(out.begin(), out.end(), pattern), end; found != end; ++found)
    numbers.push_back(std::stod((*found)[1]));
  return numbers;
}

void expect_near(const std::vector<double>& one, const std::vector<double>& two) {
  ASSERT_EQ(one.size(), two.size());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 2e-5 * one[i] + 2e-6) << "number " << i;
}

void expect_falling(const std::vector<double>& losses, double share) {
  for (size_t i = 1; i < losses.size(); ++i) EXPECT_LT(losses[i], losses[i - 1]) << "loss " << i;
  EXPECT_LT(losses.back(), losses.front() * share);
}

TEST_F(ExamplesTest, DataParallelGivesWhatOneRankGives) {
  const std::string one = run("data_parallel", {}, 1), two = run("data_parallel", {}, 2);
  const auto losses = numbers_after("loss", one);
  ASSERT_THAT(losses, SizeIs(10)) << one;
  expect_falling(losses, 0.3);
  expect_near(losses, numbers_after("loss", two));
  expect_near(numbers_after("weights", one), numbers_after("weights", two));
  EXPECT_THAT(two, HasSubstr("2 ranks, norm"));
}

TEST_F(ExamplesTest, ChainGivesTheSameInEachLayout) {
  const auto losses = numbers_after("loss", run("chain", {}, 1));
  ASSERT_THAT(losses, SizeIs(20));
  EXPECT_LT(losses.back(), losses.front() / 4);
  expect_near(losses, numbers_after("loss", run("chain", {}, 2)));
  expect_near(losses, numbers_after("loss", run("chain", {"pipeline"}, 2)));
  expect_near(losses, numbers_after("loss", run("chain", {"pipeline"}, 4)));
}

TEST_F(ExamplesTest, ModelParallelGivesWhatOneRankGives) {
  const std::string one = run("model_parallel", {}, 1), two = run("model_parallel", {}, 2),
                    four = run("model_parallel", {}, 4);
  // 1000 x 500 and 500 x 10 weights and their biases; the first part; half of each, with all of the last
  // bias.
  EXPECT_THAT(one, HasSubstr("tensor split: rank 0 of 1 holds 505510 weights"));
  EXPECT_THAT(two, HasSubstr("pipeline: rank 0 of 2 holds 500500 weights"));
  EXPECT_THAT(two, HasSubstr("tensor split: rank 0 of 2 holds 252760 weights"));
  const auto losses = numbers_after("tensor split: epoch [0-9]+ loss", one);
  ASSERT_THAT(losses, SizeIs(10)) << one;
  expect_falling(losses, 0.5);
  for (const std::string way : {"pipeline", "tensor split"}) {
    expect_near(losses, numbers_after(way + ": epoch [0-9]+ loss", two));
    expect_near(losses, numbers_after(way + ": epoch [0-9]+ loss", four));
  }
}

TEST_F(ExamplesTest, StrategiesKeepTheBatch) {
  const std::string one = run("strategies", {}, 1), two = run("strategies", {}, 2);
  // 64 KiB / (4 bytes * (3 * 64 + 8 numbers a row kept)) is 81 rows: 64 are the largest power of two.
  EXPECT_THAT(one, HasSubstr("micro-batch 64 fits 64 KiB"));
  const auto differences = numbers_after("differ by", one);
  ASSERT_THAT(differences, SizeIs(1)) << one;
  EXPECT_LT(differences[0], 1e-6);
  // Every schedule is there, and ends where it does on one rank.
  const std::string table = one.substr(one.find("schedule"));
  for (const char* type : {"constant", "linear", "cosine", "polynomial", "warmup_stable_decay"})
    EXPECT_THAT(table, HasSubstr(type));
  const std::string losses = R"(\n[a-z_]+ +[.0-9]+ +[.0-9]+ +[.0-9]+ +[.0-9]+)";
  EXPECT_THAT(numbers_after(losses, one), SizeIs(10)) << one;
  expect_near(numbers_after(losses, one), numbers_after(losses, two));
}

TEST_F(ExamplesTest, WorkedCaseSavesWhatItHasLearned) {
  for (const int ranks : {1, 2}) {
    const std::string folder = "out" + std::to_string(ranks);
    const std::string out = run("worked_case", {folder}, ranks);
    EXPECT_THAT(numbers_after("loss", out), SizeIs(10)) << out;
    EXPECT_LT(numbers_after("loss", out).back(), 0.01);
    EXPECT_NEAR(numbers_after("says", out).at(2), 0.997, 0.1);
    EXPECT_TRUE(fs::is_regular_file(folder_.path() / folder / "model.pt"));
    EXPECT_TRUE(fs::is_directory(folder_.path() / folder / "checkpoint-2500"));
  }
}

TEST_F(ExamplesTest, AreShortEnoughToBeRead) {
  const fs::path examples = fs::path(std::getenv("DUOKA_FIXTURES")) / "../../examples";
  int num_programs = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(examples)) {
    if (entry.path().extension() != ".cpp") continue;
    ++num_programs;
    std::ifstream in(entry.path());
    int64_t lines = 0;
    for (std::string line; std::getline(in, line);) ++lines;
    EXPECT_LT(lines, 150) << entry.path();
  }
  EXPECT_GE(num_programs, 4);
}

}  // namespace
}  // namespace duoka::testing
