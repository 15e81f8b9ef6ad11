// SPDX-License-Identifier: Apache-2.0
// Case D06 and its kin: runs of several processes, started right, started wrong, interrupted and killed.
// "At once" is before the ddp_timeout, by default 1800 s: run_duoka() kills a run that waits for that, and
// fails.
#include <csignal>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli_files.h"

namespace duoka::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

/// A port of this machine that is held while this lives.
class HeldPort {
 public:
  HeldPort() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd_, 8) != 0 ||
        ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no port for the test");
    port_ = ntohs(address.sin_port);
  }
  ~HeldPort() { release(); }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

  void release() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  std::string number() const { return std::to_string(port_); }

 private:
  int fd_;
  int port_ = 0;
};

std::string free_port() { return HeldPort().number(); }

RunOptions as_rank(int rank, int size, const std::string& port, const std::string& address = "127.0.0.1") {
  return {.environment = {"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(size),
                          "MASTER_ADDR=" + address, "MASTER_PORT=" + port}};
}

class LaunchTest : public ::testing::Test {
 protected:
  Words train(const std::string& output, const Words& more) const { return shop_.train(output, more); }
  Words endless(const Words& more) const {
    Words words{"max_steps=1000000", "save_strategy=steps", "save_steps=1000000",
                "lr_scheduler_type=constant"};
    words.insert(words.end(), more.begin(), more.end());
    return train("out", words);
  }

  Workshop shop_;
};

TEST_F(LaunchTest, D06TwoRunsAtOnceDoNotMeet) {
  Running first(train("first", {"max_steps=3", "--cards", "2"}));
  Running second(train("second", {"max_steps=3", "--cards=2"}));
  const Outcome one = first.wait(), two = second.wait();
  EXPECT_EQ(one.exit_code, 0) << one.all();
  EXPECT_EQ(two.exit_code, 0) << two.all();
  EXPECT_THAT(printed_losses(one.err), SizeIs(3));
  EXPECT_EQ(printed_losses(one.err), printed_losses(two.err));
}

TEST_F(LaunchTest, RanksStartedByHandAreARunLikeThatOfCards) {
  const Outcome cards = run_duoka(train("cards", {"max_steps=3", "--cards", "2"}));
  const std::string port = free_port();
  Running zero(train("by_hand", {"max_steps=3"}), as_rank(0, 2, port));
  Running one(train("by_hand", {"max_steps=3"}), as_rank(1, 2, port));
  const Outcome first = zero.wait(), second = one.wait();
  EXPECT_EQ(first.exit_code, 0) << first.all();
  EXPECT_EQ(second.exit_code, 0) << second.all();
  EXPECT_THAT(printed_losses(first.err), SizeIs(3));
  EXPECT_EQ(printed_losses(first.err), printed_losses(cards.err));
  EXPECT_EQ(second.err, "") << "only rank 0 speaks";
}

TEST_F(LaunchTest, CardsUnderAnotherLauncherAreRefused) {
  const Outcome outcome = run_duoka(train("out", {"--cards", "2"}), as_rank(0, 2, free_port()));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--cards 2 under torchrun"), HasSubstr("leave --cards out")));
}

TEST_F(LaunchTest, CardsInARankOfDuokasOwnAreRefused) {
  RunOptions rank = as_rank(0, 2, free_port());
  rank.environment.emplace_back("DUOKA_LAUNCHED=1");
  const Outcome outcome = run_duoka(train("out", {"--cards", "2"}), rank);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--cards 2 under duoka"), HasSubstr("leave --cards out")));
}

TEST_F(LaunchTest, SigtermToOneRankStopsTheRunAsToTheLauncher) {
  Running running(endless({"--cards", "2"}));
  ASSERT_TRUE(running.wait_for_text("step=2 "));
  ::kill(running.children().at(1), SIGTERM);
  const Outcome outcome = running.wait();
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("stopped by signal 15 after update"), Not(HasSubstr("error"))));
}

TEST_F(LaunchTest, D06RankBeyondTheWorldIsAnErrorAtOnce) {
  const Outcome outcome = run_duoka(train("out", {}), as_rank(2, 2, free_port()));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("RANK = 2 is not below WORLD_SIZE = 2"));
}

TEST_F(LaunchTest, D06WorldSizeWithoutARankIsAnError) {
  const Outcome outcome = run_duoka(train("out", {}), {.environment = {"WORLD_SIZE=2"}});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("WORLD_SIZE is set but RANK is not"));
}

TEST_F(LaunchTest, D06MissingPeerIsNamedAfterTheWaitAskedFor) {
  const Outcome outcome = run_duoka(train("out", {"ddp_timeout=2"}), as_rank(0, 2, free_port()));
  EXPECT_EQ(outcome.exit_code, 5) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("1 of 2 joined"), HasSubstr("missing: rank 1"),
                                 HasSubstr("after 2 s"), HasSubstr("ddp_timeout")));
}

TEST_F(LaunchTest, D06MissingRankZeroIsNamedAfterTheWaitAskedFor) {
  const Outcome outcome = run_duoka(train("out", {"ddp_timeout=1"}), as_rank(1, 2, free_port()));
  EXPECT_EQ(outcome.exit_code, 5) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("found no rank 0 at 127.0.0.1:"), HasSubstr("after 1 s")));
}

TEST_F(LaunchTest, D06AddressThatDoesNotResolve) {
  const Outcome outcome = run_duoka(train("out", {}), as_rank(1, 2, free_port(), "no-such-host.invalid"));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("MASTER_ADDR 'no-such-host.invalid' does not resolve")));
}

TEST_F(LaunchTest, D06OccupiedPortIsNamedWithTheKeyToChange) {
  const HeldPort port;
  const Outcome outcome = run_duoka(train("out", {}), as_rank(0, 2, port.number()));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("port " + port.number()), HasSubstr("in use by another program"),
                                 HasSubstr("MASTER_PORT")));
}

TEST_F(LaunchTest, LoopbackThatIsDownIsAnErrorAtOnce) {
  RunOptions apart{.program = find_program("unshare")};  // a network of its own, where nothing is up
  if (apart.program.empty() || run_duoka({"-rn", "true"}, apart).exit_code != 0)
    GTEST_SKIP() << "no network namespace can be made here";
  Words words = train("out", {"max_steps=1", "--cards", "2"});
  words.insert(words.begin(), {"-rn", std::getenv("DUOKA_BINARY")});
  const Outcome outcome = run_duoka(words, apart);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("cannot reach itself at 127.0.0.1"), HasSubstr("loopback")));
}

TEST_F(LaunchTest, D06SameRankTwiceEndsBoth) {
  for (const int rank : {0, 1}) {
    const std::string port = free_port();
    Running first(train("out", {}), as_rank(rank, 3, port));
    Running second(train("out", {}), as_rank(rank, 3, port));
    // Rank 0 keeps the list of those that have come.
    std::optional<Running> zero;
    if (rank != 0) zero.emplace(train("out", {}), as_rank(0, 3, port));
    for (const Outcome& outcome : {first.wait(), second.wait()}) {
      EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
      EXPECT_THAT(outcome.err, AnyOf(HasSubstr("rank " + std::to_string(rank) + " of 3 came twice"),
                                     HasSubstr("in use by another rank 0")));
    }
    if (zero) {
      EXPECT_EQ(zero->wait().exit_code, 2);
    }
  }
}

TEST_F(LaunchTest, KilledRankTakesTheRunDownWithItsErrorOnce) {
  Running running(endless({"--cards", "3"}));
  ASSERT_TRUE(running.wait_for_text("step=2 ")) << running.err();
  const auto ranks = running.children();
  ASSERT_THAT(ranks, SizeIs(3));
  ::kill(ranks[1], SIGKILL);
  const Outcome outcome = running.wait();
  EXPECT_EQ(outcome.exit_code, 128 + SIGKILL);
  EXPECT_EQ(count_of(outcome.err, "error: "), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("error: rank 1 of 3 (process " + std::to_string(ranks[1]) +
                                     ") was killed by signal 9 (SIGKILL)"));
  for (const pid_t rank : ranks) EXPECT_NE(::kill(rank, 0), 0) << "process " << rank << " is still there";
}

TEST_F(LaunchTest, FailureOfTheDataIsShownOnceForAllRanks) {
  const Outcome outcome =
      run_duoka(train("out", {"dataset=" + Workshop::case_file("A06_all_bad.jsonl").string(), "cutoff_len=32",
                              "--cards", "3"}));
  EXPECT_EQ(outcome.exit_code, 3) << outcome.all();
  EXPECT_EQ(count_of(outcome.err, "error: "), 1) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("error: DataError on rank "), HasSubstr("0 of 3 rows usable")));
}

/// Ctrl-C: the update is finished, a checkpoint written, and the way to go on told.
TEST_F(LaunchTest, InterruptedRunSavesAndGoesOn) {
  for (const auto& [num_cards, signal] : {std::pair(1, SIGINT), {2, SIGINT}, {1, SIGHUP}, {2, SIGHUP}}) {
    const std::string cards = std::to_string(num_cards);
    Running running(endless({"overwrite_output_dir=true", "--cards", cards}));
    ASSERT_TRUE(running.wait_for_text("step=3 ")) << running.err();
    running.send(signal);
    const Outcome outcome = running.wait();
    EXPECT_EQ(outcome.exit_code, 128 + signal) << outcome.all();
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("stopped by signal " + std::to_string(signal) + " after update "),
                      HasSubstr("resume_from_checkpoint=true"), Not(HasSubstr("error"))));
    const auto done = std::stoll(field(lines_with(outcome.err, "step=").back(), "step"));
    const std::string next = std::to_string(done + 1);
    const Outcome resumed =
        run_duoka(train("out", {"resume_from_checkpoint=true", "lr_scheduler_type=constant",
                                "max_steps=" + next, "--cards", cards}));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.all();
    EXPECT_THAT(resumed.err,
                AllOf(HasSubstr("resumed from"), HasSubstr("trained 1 update, up to " + next + ", in ")));
    EXPECT_EQ(field(lines_with(resumed.err, "step=").at(0), "step"), next);
  }
}

/// A terminal that goes away is nothing to stop for.
TEST_F(LaunchTest, NohupIsHeeded) {
  Words words = endless({"--cards", "2"});
  words.insert(words.begin(), duoka_binary());
  Running running(words, {.program = "nohup"});
  ASSERT_TRUE(running.wait_for_text("step=3 ")) << running.err();
  running.send(SIGHUP);
  for (const pid_t rank : running.children()) ::kill(rank, SIGHUP);
  const std::string step = field(lines_with(running.err(), "step=").back(), "step");
  EXPECT_TRUE(running.wait_for_text("step=" + std::to_string(std::stoll(step) + 100) + " ")) << running.err();
  running.send(SIGTERM);
  EXPECT_EQ(running.wait().exit_code, 128 + SIGTERM);
}

TEST_F(LaunchTest, ASecondRunIsKeptOutOfTheFolder) {
  Running first(endless({"--cards", "2"}));
  ASSERT_TRUE(first.wait_for_text("step=3 ")) << first.err();
  const Outcome second = run_duoka(endless({"overwrite_output_dir=true"}));
  EXPECT_EQ(second.exit_code, 2) << second.all();
  EXPECT_THAT(second.err, HasSubstr("error: ConfigError: output_dir: another run is writing into "));
  const std::string step = field(lines_with(first.err(), "step=").back(), "step");
  EXPECT_TRUE(first.wait_for_text("step=" + std::to_string(std::stoll(step) + 100) + " ")) << first.err();
  first.send(SIGKILL);
  first.wait();
  const Outcome third = run_duoka(train("out", {"max_steps=1", "overwrite_output_dir=true"}));
  EXPECT_EQ(third.exit_code, 0) << third.all();
}

TEST_F(LaunchTest, NumberOfCardsIsChecked) {
  for (const auto& [words, says] : std::initializer_list<std::pair<Words, const char*>>{
           {{"train", "--cards", "0"}, "--cards: found 0; wanted a number from 1 to 4096"},
           {{"train", "--cards", "two"}, "found 'two'; wanted a whole number"},
           {{"train", "--cards"}, "found ''; wanted a whole number"}}) {
    const Outcome outcome = run_duoka(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("--cards"), HasSubstr(says)));
  }
}

}  // namespace
}  // namespace duoka::testing
