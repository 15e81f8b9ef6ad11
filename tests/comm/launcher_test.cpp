// SPDX-License-Identifier: Apache-2.0
// `--cards N` with real processes: exit codes, one error shown once, signals, nobody left behind.
#include "duoka/comm/launcher.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/cores.h"
#include "comm/report.h"
#include "comm/started.h"
#include "duoka/core/error.h"

namespace duoka::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

int count(const std::string& words, const std::string& part) {
  int num = 0;
  for (size_t at = words.find(part); at != std::string::npos; at = words.find(part, at + 1)) ++num;
  return num;
}

/// True when none of `pids` runs any more, given a moment. A zombie nobody waits for has ended too.
bool all_gone(const std::vector<pid_t>& pids) {
  const auto runs = [](pid_t pid) {
    const std::string stat = contents(fs::path("/proc") / std::to_string(pid) / "stat");
    return !stat.empty() && stat.find(") Z") == std::string::npos;
  };
  for (int i = 0; i < 12'000; ++i) {
    if (std::ranges::none_of(pids, runs)) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

TEST(Launcher, RanksMeetAndRankZeroSpeaks) {
  Started run({"3", "sum"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(run.out(), "sum 6\n");
  EXPECT_EQ(run.err(), "");
}

TEST(Launcher, OneCardWorksToo) {
  Started run({"1", "sum"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(run.out(), "sum 1\n");
}

TEST(Launcher, CopiesOfTheLauncherAreRanksToo) {
  unsetenv("OMP_NUM_THREADS");
  Started sum({"3", "sum"}, {"COPIES=1", "RANK=5", "OMPI_COMM_WORLD_RANK=3"});
  EXPECT_EQ(sum.wait(), 0) << sum.err();
  EXPECT_EQ(sum.out(), "sum 6\n");
  Started run({"2", "environment"}, {"COPIES=1", "PIN=1"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  const std::string line = std::to_string(std::max(1, usable_cores() / 2)) + " threads on " +
                           std::to_string(share_of_cores(allowed_cores(), 0, 2).size()) + " cores\n";
  EXPECT_THAT(run.out(), AllOf(HasSubstr(line), HasSubstr("stdin ends: 1\nstdout of rank 0\n")));
  EXPECT_THAT(run.out(), Not(HasSubstr("stdout of rank 1")));
}

TEST(Launcher, CopiesFailAsProgramsDo) {
  Started run({"3", "fail", "error"}, {"COPIES=1"});
  const auto pids = run.pids(3);
  EXPECT_EQ(run.wait(), 3);
  EXPECT_EQ(run.err(), "error: DataError on rank 1 of 3: rows.jsonl:7: no closing brace\n");
  EXPECT_TRUE(all_gone(pids));
}

TEST(Launcher, IsNotCopiedWithThreads) {
  Started run({"2", "threads"}, {"COPIES=1"});
  EXPECT_EQ(run.wait(), StateError("").exit_code());
  EXPECT_THAT(run.err(), HasSubstr("this process has 2 threads"));
}

TEST(Launcher, TwoRunsAtOnceBothWork) {
  Started first({"2", "sum"});
  Started second({"2", "sum"});
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(first.out() + second.out(), "sum 3\nsum 3\n");
}

TEST(Launcher, VariablesLeftFromAnotherJobDoNoHarm) {
  Started run({"2", "sum"},
              {"RANK=5", "WORLD_SIZE=9", "MASTER_ADDR=nowhere.invalid", "OMPI_COMM_WORLD_RANK=3"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(run.out(), "sum 3\n");
}

TEST(Launcher, ThreadsAndOutputsAreDividedAmongRanks) {
  unsetenv("OMP_NUM_THREADS");
  Started run({"2", "environment"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  const std::string line = std::to_string(std::max(1, usable_cores() / 2)) + " threads on " +
                           std::to_string(allowed_cores().size()) + " cores\n";
  EXPECT_EQ(run.out(), line + line + "stdin ends: 1\nstdout of rank 0\n");
  EXPECT_THAT(run.err(), AllOf(HasSubstr("stderr of rank 0"), HasSubstr("stderr of rank 1")));
}

TEST(Launcher, CoresCanBePinned) {
  if (allowed_cores().size() < 2) GTEST_SKIP() << "one core only";
  Started run({"2", "environment"}, {"PIN=1", "OMP_NUM_THREADS=7"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  const auto share = share_of_cores(allowed_cores(), 0, 2).size();
  EXPECT_THAT(run.out(), HasSubstr("7 threads on " + std::to_string(share) + " cores\n"));
}

TEST(Launcher, ErrorOfTheCulpritIsShownOnceAndIsTheExitCode) {
  Started run({"3", "fail", "error"});
  const auto pids = run.pids(3);
  EXPECT_EQ(run.wait(), 3);  // DataError's
  EXPECT_EQ(run.err(), "error: DataError on rank 1 of 3: rows.jsonl:7: no closing brace\n");
  EXPECT_TRUE(all_gone(pids));
}

TEST(Launcher, KilledRankIsNamedWithTheSignal) {
  Started run({"3", "fail", "kill"});
  const auto pids = run.pids(3);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_THAT(run.err(),
              AllOf(HasSubstr("error: rank 1 of 3"), HasSubstr("signal 9 (SIGKILL)"), HasSubstr("memory")));
  EXPECT_EQ(count(run.err(), "error:"), 1) << run.err();
  EXPECT_EQ(count(run.err(), "\n"), 1) << run.err();
  EXPECT_TRUE(all_gone(pids));
}

TEST(Launcher, CrashedRankIsNamedWithTheSignal) {
  Started run({"2", "fail", "segv"});
  EXPECT_EQ(run.wait(), 128 + SIGSEGV);
  EXPECT_THAT(run.err(), HasSubstr("rank 1 of 2"));
  EXPECT_THAT(run.err(), HasSubstr("(SIGSEGV)"));
}

TEST(Launcher, RankThatExitsWithoutAWordIsTheCulprit) {
  Started run({"2", "fail", "exit"});
  EXPECT_EQ(run.wait(), 9);
  EXPECT_EQ(run.err(), "error: rank 1 of 2 ended with exit code 9 and left no message\n");
}

TEST(Launcher, RankThatIgnoresSigtermIsKilled) {
  Started run({"2", "stubborn"});
  const auto pids = run.pids(2);
  EXPECT_EQ(run.wait(), 2);
  EXPECT_EQ(run.err(), "error: ConfigError on rank 1 of 2: rank 1 gives up\n");
  EXPECT_TRUE(all_gone(pids));
}

TEST(Launcher, RankThatNeverJoinsIsNamed) {
  Started run({"2", "late"});
  const auto pids = run.pids(2);
  EXPECT_EQ(run.wait(), 5);
  EXPECT_THAT(run.err(),
              AllOf(HasSubstr("1 of 2 joined"), HasSubstr("missing: rank 1"), Not(HasSubstr("signal"))));
  EXPECT_TRUE(all_gone(pids));
}

TEST(Launcher, SignalsAreSentOnOnceToEachRank) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Started run({"2", "wait"});
    run.pids(2);
    run.send(signal);
    EXPECT_EQ(run.wait(), 0);
    const std::string saw = " saw signal " + std::to_string(signal) + "\n";
    EXPECT_EQ(count(run.err(), "rank 0" + saw), 1) << run.err();
    EXPECT_EQ(count(run.err(), "rank 1" + saw), 1) << run.err();
  }
}

TEST(Launcher, RanksThatASignalStopsEndTheRunWithIt) {
  Started run({"2", "idle"});
  const auto pids = run.pids(2);
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), 128 + SIGINT);
  EXPECT_EQ(run.err(), "stopped by SIGINT\n");
  EXPECT_TRUE(all_gone(pids));
}

TEST(Launcher, NoRankOutlivesAKilledLauncher) {
  Started run({"2", "idle"});
  const auto pids = run.pids(2);
  run.send(SIGKILL);
  EXPECT_EQ(run.wait(), -SIGKILL);
  EXPECT_TRUE(all_gone(pids));
}

TEST(Launcher, RefusesWhatCannotRun) {
  EXPECT_THROW(launch(0, {}), ConfigError);
  EXPECT_THROW(launch(2, {}, {.program = "/no/such/program"}), SystemError);
}

TEST(ErrorBlock, NamesKindAndRankAndGivesTheExitCode) {
  int exit_code = 0;
  EXPECT_EQ(error_block(ConfigError("no such key"), 0, 1, exit_code), "error: ConfigError: no such key");
  EXPECT_EQ(exit_code, 2);
  EXPECT_EQ(error_block(std::runtime_error("odd"), 1, 2, exit_code), "error: unexpected on rank 1 of 2: odd");
  EXPECT_EQ(exit_code, 1);
  EXPECT_EQ(error_block(ConfigError("found 'a\x1b[31m\n'"), 0, 1, exit_code),
            "error: ConfigError: found 'a\\x1B[31m\\x0A'");
  const std::filesystem::filesystem_error no_room("status", "/a/b",
                                                  std::make_error_code(std::errc::no_space_on_device));
  EXPECT_EQ(error_block(no_room, 0, 1, exit_code),
            "error: SystemError: cannot use /a/b: No space left on device");
  EXPECT_EQ(exit_code, 7);
  error_block(std::bad_alloc(), 0, 1, exit_code);
  EXPECT_EQ(exit_code, 1);
}

TEST(Report, ComesThroughAsItWent) {
  const Report report{.nanoseconds = 123456789012345, .is_echo = true, .block = "two\nlines \n"};
  const auto back = from_wire(to_wire(report));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->nanoseconds, report.nanoseconds);
  EXPECT_TRUE(back->is_echo);
  EXPECT_EQ(back->block, report.block);
  EXPECT_FALSE(from_wire("").has_value());
  EXPECT_FALSE(from_wire(to_wire(report).substr(0, 20)).has_value()) << "cut short";
  EXPECT_LT(to_wire({.nanoseconds = 1, .is_echo = false, .block = std::string(1 << 20, 'x')}).size(),
            size_t{65536});
}

TEST(Cores, AreDealtOutWithoutRemainder) {
  const std::vector<int> cores = {2, 3, 4, 8, 9};
  EXPECT_EQ(share_of_cores(cores, 0, 2), (std::vector{2, 3, 4}));
  EXPECT_EQ(share_of_cores(cores, 1, 2), (std::vector{8, 9}));
  EXPECT_EQ(share_of_cores(cores, 5, 6), cores) << "more ranks than cores share all";
}

}  // namespace
}  // namespace duoka::comm
