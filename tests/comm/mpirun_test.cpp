// SPDX-License-Identifier: Apache-2.0
// Ranks that mpirun starts; skipped where it is not installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/started.h"
#include "support/run_duoka.h"

namespace duoka::comm {
namespace {

using duoka::testing::find_program;
using ::testing::HasSubstr;

TEST(Mpirun, RanksMeetAndFailTogether) {
  const std::string mpirun = find_program("mpirun");
  if (mpirun.empty()) GTEST_SKIP() << "mpirun is not installed";
  const std::vector<std::string> start = {mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "2"};
  const auto ranks = [&](std::vector<std::string> words) {
    std::vector<std::string> all = start;
    all.push_back(child_program());
    all.insert(all.end(), words.begin(), words.end());
    return all;
  };
  Started good(ranks({"rank", "sum"}), {}, mpirun);
  EXPECT_EQ(good.wait(), 0) << good.err();
  EXPECT_EQ(good.out(), "sum 3\n");
  Started bad(ranks({"rank", "fail", "error"}), {}, mpirun);
  EXPECT_NE(bad.wait(), 0);
  EXPECT_THAT(bad.err(), HasSubstr("error: DataError on rank 1 of 2: rows.jsonl:7"));
}

}  // namespace
}  // namespace duoka::comm
