// SPDX-License-Identifier: Apache-2.0
#include "duoka/comm/session.h"

#include <filesystem>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/run_duoka.h"

namespace duoka::comm {
namespace {

using duoka::testing::Outcome;
using ::testing::HasSubstr;

Outcome run(const std::vector<std::string>& arguments, std::vector<std::string> environment = {}) {
  testing::RunOptions options;
  options.program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "comm_session_child";
  environment.emplace_back("CUDA_VISIBLE_DEVICES=");
  options.environment = std::move(environment);
  return testing::run_duoka(arguments, options);
}

TEST(RunMain, IsOneRankWithoutALauncher) {
  const Outcome outcome = run({"a", "b"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_EQ(outcome.out, "1 ranks on cpu, sum 1, 2 arguments\n");
}

TEST(RunMain, StartsRanksOfItself) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"a", "--cards", "2"}, {"--cards=2", "a"}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    EXPECT_EQ(outcome.out, "2 ranks on cpu, sum 3, 1 arguments\n");
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(RunMain, TellsTheFailureOfARankOnce) {
  const Outcome outcome = run({"fail", "--cards", "2"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.all();
  EXPECT_EQ(outcome.err, "error: DataError on rank 1 of 2: rows.jsonl:7: no closing brace\n");
}

TEST(RunMain, RefusesWhatStartsNoRanks) {
  for (const char* cards : {"0", "-1", "two", "2x", ""}) {
    const Outcome outcome = run({"--cards", cards});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
    EXPECT_THAT(outcome.err, HasSubstr(std::string("error: ConfigError: --cards ") + cards + ": wanted"));
  }
  const Outcome nothing = run({"--cards"});
  EXPECT_EQ(nothing.exit_code, 2) << nothing.all();
  EXPECT_THAT(nothing.err, HasSubstr("wanted a number of ranks behind it"));
  const Outcome twice = run({"--cards", "2"}, {"RANK=0", "WORLD_SIZE=1"});
  EXPECT_EQ(twice.exit_code, 2) << twice.all();
  EXPECT_THAT(twice.err, HasSubstr("has started 1 rank already; leave --cards out"));
  const Outcome half = run({}, {"RANK=0"});
  EXPECT_EQ(half.exit_code, 2) << half.all();
  EXPECT_THAT(half.err, HasSubstr("WORLD_SIZE"));
}

TEST(DeviceOf, IsTheCpuWithoutCards) {
  if (at::hasCUDA()) GTEST_SKIP() << "this machine has cards";
  EXPECT_EQ(device_of({.rank = 5, .size = 8, .local_rank = 5, .local_size = 8}), at::Device(at::kCPU));
}

}  // namespace
}  // namespace duoka::comm
