// SPDX-License-Identifier: Apache-2.0
// A training whose ranks mpirun starts; skipped where it is not installed.
#include <gmock/gmock.h>

#include "cli/cli_files.h"

namespace duoka::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(Mpirun, GivesTheLossesOfCards) {
  if (find_program("mpirun").empty()) GTEST_SKIP() << "mpirun is not installed";
  const Workshop shop;
  const Outcome cards = run_duoka(shop.train("cards", {"max_steps=3", "--cards", "2"}));
  Words words{"--allow-run-as-root", "--oversubscribe", "-np", "2", duoka_binary()};
  const Words training = shop.train("mpi", {"max_steps=3"});
  words.insert(words.end(), training.begin(), training.end());
  const Outcome mpi = run_duoka(words, {.program = "mpirun"});
  ASSERT_EQ(mpi.exit_code, 0) << mpi.all();
  EXPECT_THAT(mpi.out + mpi.err, HasSubstr("ranks       2 on CPU"));
  EXPECT_THAT(printed_losses(mpi.err), SizeIs(3));
  EXPECT_EQ(printed_losses(mpi.err), printed_losses(cards.err));
}

}  // namespace
}  // namespace duoka::testing
