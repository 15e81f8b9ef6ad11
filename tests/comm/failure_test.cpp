// SPDX-License-Identifier: Apache-2.0
// What a collective does when a peer goes, stays away, or is given something that cannot be sent.
#include <array>
#include <chrono>
#include <csignal>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/comm/collectives.h"
#include "duoka/comm/local.h"
#include "duoka/core/error.h"
#include "support/run_ranks.h"

namespace duoka::comm {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::run_ranks;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

/// Seconds within which peers see that a rank has gone, on a busy machine too; else they wait for the
/// time-out.
constexpr double at_once = 60;
static_assert(at_once < test::patience.count());

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(Failure, PeersOfARankThatThrowsFailAtOnceAndItsErrorIsTheOneReported) {
  std::array<std::string, 3> echoes;
  const auto start = Clock::now();
  try {
    run_ranks(3, [&](const Group& group) {
      if (group.rank() == 1) throw DataError("row 7 is broken");
      try {
        at::Tensor x = at::ones({8});
        all_reduce(x, Op::sum, group);
      } catch (const CommError& error) {
        echoes[static_cast<size_t>(group.rank())] = error.what();
        throw;
      }
    });
    FAIL() << "no error came through";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "row 7 is broken");
  }
  EXPECT_LT(seconds_since(start), at_once);
  for (const size_t rank : {0, 2})
    EXPECT_THAT(echoes[rank], AllOf(HasSubstr("all_reduce over axis 'data' failed on rank " +
                                              std::to_string(rank) + " of 3"),
                                    ContainsRegex("after [0-9.]+ s")));
}

TEST(Failure, PeerThatStaysAwayIsGivenUpAfterTheTimeOut) {
  std::promise<void> has_given_up;
  run_ranks(
      2,
      [&](const Group& group) {
        if (group.rank() == 1) {
          EXPECT_EQ(has_given_up.get_future().wait_for(60s), std::future_status::ready);
          return;
        }
        at::Tensor x = at::ones({8});
        const auto begin = Clock::now();
        EXPECT_THROW(all_reduce(x, Op::sum, group), CommError);
        EXPECT_GT(seconds_since(begin), 1.8);
        has_given_up.set_value();
      },
      2s);
}

void own_handler(int) {}

/// What SIGPIPE does once a group of two was made by a program where it did `before`.
sighandler_t broken_pipe_after_joining(sighandler_t before) {
  const sighandler_t outside = std::signal(SIGPIPE, before);
  run_ranks(2, [](const Group& group) { barrier(group); });
  return std::signal(SIGPIPE, outside);
}

TEST(Failure, AWriteToAPeerThatWentEndsNoProcessAndAHandlerOfTheProgramStays) {
  EXPECT_EQ(broken_pipe_after_joining(SIG_DFL), SIG_IGN);
  EXPECT_EQ(broken_pipe_after_joining(own_handler), own_handler);
}

TEST(Failure, PendingMayBeDroppedWhileItsPeerIsAway) {
  const auto start = Clock::now();
  run_ranks(2, [](const Group& group) {
    if (group.rank() == 1) {
      std::this_thread::sleep_for(300ms);
      return;
    }
    at::Tensor x = at::ones({8});
    { const Pending dropped = start_all_reduce(x, Op::sum, group); }
    std::optional<Pending> kept = start_all_reduce(x, Op::sum, group);
    EXPECT_THROW(kept->wait(), CommError);
    kept->wait();  // nothing more to wait for
  });
  EXPECT_LT(seconds_since(start), at_once);
}

TEST(Failure, ClosingAGroupDoesNotWaitForAStuckPeer) {
  LocalMeeting meeting(2);
  std::promise<void> is_closed;
  auto stuck = std::async(std::launch::async, [&] {
    const Group group = meeting.join(1);
    return is_closed.get_future().wait_for(60s);
  });
  std::optional<Group> group = meeting.join(0);
  at::Tensor x = at::ones({8});
  std::optional<Pending> pending = start_all_reduce(x, Op::sum, *group);
  pending.reset();
  group.reset();
  is_closed.set_value();
  EXPECT_EQ(stuck.get(), std::future_status::ready) << "closing took as long as the peer was stuck";
}

TEST(Failure, PendingOutlivesItsGroup) {
  run_ranks(2, [](const Group& group) {
    at::Tensor x = at::full({4}, group.rank() + 1.0F);
    std::optional<Pending> pending;
    {
      const Group copy = group;
      pending = start_all_reduce(x, Op::sum, copy);
    }
    pending->wait();
    EXPECT_EQ(x[3].item<float>(), 3);
  });
}

TEST(Failure, AThirdErrorKindComesThroughRunRanks) {
  EXPECT_THROW(run_ranks(1, [](const Group&) { throw ConfigError("no"); }), ConfigError);
}

/// The message of the StateError that `body` must throw on a group of two, before anything is sent.
template <class Body>
std::string refusal(Body&& body) {
  std::string message = "(accepted)";
  run_ranks(2, [&](const Group& group) {
    try {
      body(group);
    } catch (const StateError& error) {
      if (group.rank() == 0) message = error.what();
    }
    EXPECT_EQ(group.traffic().total().calls, 0);
    barrier(group);  // the group is as good as before
  });
  return message;
}

TEST(Arguments, AreRefusedByName) {
  at::Tensor wide = at::ones({4, 4});
  at::Tensor undefined;
  at::Tensor truth = at::ones({4}, at::kBool);
  at::Tensor five = at::ones({5});
  EXPECT_THAT(refusal([&](const Group& g) {
                at::Tensor turned = wide.t();
                all_reduce(turned, Op::sum, g);
              }),
              AllOf(HasSubstr("all_reduce over axis 'data' on rank 0"), HasSubstr("not contiguous")));
  EXPECT_THAT(refusal([&](const Group& g) { all_reduce(undefined, Op::sum, g); }), HasSubstr("undefined"));
  EXPECT_THAT(refusal([&](const Group& g) { all_reduce(truth, Op::max, g); }),
              AllOf(HasSubstr("Bool"), HasSubstr("bf16")));
  EXPECT_THAT(refusal([&](const Group& g) { broadcast(wide, 2, g); }), HasSubstr("no rank 2 of 2"));
  EXPECT_THAT(refusal([&](const Group& g) { all_gather_into(wide, five, g); }),
              AllOf(HasSubstr("all_gather"), HasSubstr("factor of 2")));
  EXPECT_THAT(refusal([&](const Group& g) { reduce_scatter_into(wide, five, g); }), HasSubstr("factor of 2"));
  EXPECT_THAT(refusal([&](const Group& g) {
                at::Tensor out = at::empty({10}, at::kDouble);
                all_gather_into(out, five, g);
              }),
              HasSubstr("differ"));
  std::string words;
  EXPECT_THAT(refusal([&](const Group& g) { broadcast_text(words, -1, g); }), HasSubstr("no rank -1"));
}

TEST(Arguments, TooLongATextIsRefusedOnAllRanks) {
  run_ranks(2, [](const Group& group) {
    std::string words(group.rank() == 0 ? (size_t{64} << 20) + 1 : 0, 'x');
    EXPECT_THROW(broadcast_text(words, 0, group), StateError);
    barrier(group);
  });
}

TEST(TrafficCounts, AreOfTheBufferHandedIn) {
  run_ranks(3, [](const Group& group) {
    at::Tensor x = at::ones({10});
    at::Tensor rows = at::empty({30});
    at::Tensor half = at::ones({7}, at::kBFloat16);
    all_reduce(x, Op::sum, group);
    all_reduce(half, Op::max, group);
    broadcast(x, 2, group);
    all_gather_into(rows, x, group);
    reduce_scatter_into(x, rows, group);
    barrier(group);
    std::string words = "1234";
    broadcast_text(words, 0, group);
    const Group copy = group;
    all_gather_text("12345", copy);
    using Count = Traffic::Count;
    const Traffic& traffic = group.traffic();
    EXPECT_EQ(traffic.count(Operation::all_reduce), (Count{2, 40 + 14}));
    EXPECT_EQ(traffic.count(Operation::broadcast), (Count{1, 40}));
    EXPECT_EQ(traffic.count(Operation::all_gather), (Count{1, 40}));
    EXPECT_EQ(traffic.count(Operation::reduce_scatter), (Count{1, 120}));
    EXPECT_EQ(traffic.count(Operation::barrier), (Count{1, 0}));
    EXPECT_EQ(traffic.count(Operation::text), (Count{2, (group.rank() == 0 ? 4 : 0) + 5}));
    EXPECT_EQ(traffic.total().calls, 8);
    group.traffic().reset();
    EXPECT_EQ(copy.traffic().total(), Count{});
  });
}

}  // namespace
}  // namespace duoka::comm
