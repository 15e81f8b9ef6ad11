// SPDX-License-Identifier: Apache-2.0
// Ranks that meet over TCP, and all that can keep them from it (case D06): no wait without end, each by name.
#include <chrono>
#include <future>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/sockets.h"
#include "duoka/comm/collectives.h"
#include "duoka/comm/world.h"
#include "duoka/core/error.h"

namespace duoka::comm {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

/// What ranks wait for each other where none is to stay away.
constexpr std::chrono::seconds patience{240};

/// A port nobody listens on, at least just now.
int free_port() {
  const int fd = listen_on("127.0.0.1", 0);
  const int port = port_of(fd);
  ::close(fd);
  return port;
}

World local_world(int rank, int size, int port) {
  return {.rank = rank, .size = size, .local_rank = rank, .local_size = size, .master_port = port};
}

/// "ConfigError: …" of the connect() of each world, all at once; "joined" where it went well.
std::vector<std::string> outcomes(const std::vector<World>& worlds, std::chrono::milliseconds timeout) {
  std::vector<std::future<std::string>> futures;
  for (const World& world : worlds) {
    futures.push_back(std::async(std::launch::async, [world, timeout]() -> std::string {
      try {
        const Group group = connect(world, {.timeout = timeout});
        at::Tensor ranks = at::full({1}, group.rank(), at::kLong);
        all_reduce(ranks, Op::sum, group);
        return "joined";
      } catch (const Error& error) {
        return std::string(error.kind()) + ": " + error.what();
      }
    }));
  }
  std::vector<std::string> out;
  for (auto& future : futures) out.push_back(future.get());
  return out;
}

/// Runs `body` and expects it to end long before `patience`, on a busy machine too.
template <class Body>
auto quickly(Body&& body) {
  const auto start = std::chrono::steady_clock::now();
  auto result = body();
  EXPECT_LT(std::chrono::steady_clock::now() - start, patience / 4);
  return result;
}

TEST(Connect, RanksMeetOverLoopback) {
  const int port = free_port();
  EXPECT_THAT(outcomes({local_world(0, 3, port), local_world(1, 3, port), local_world(2, 3, port)}, patience),
              Each("joined"));
}

TEST(Connect, RankZeroMayBeHandedItsSocket) {
  World first = local_world(0, 2, 0);
  first.listen_fd = listen_on("127.0.0.1", 0);
  first.master_port = port_of(first.listen_fd);
  EXPECT_THAT(outcomes({first, local_world(1, 2, first.master_port)}, patience), Each("joined"));
}

TEST(Connect, OneRankNeedsNobody) {
  const Group group = connect(World{});
  EXPECT_EQ(group.size(), 1);
  EXPECT_EQ(group.transport(), "none");
}

TEST(Connect, GroupKnowsItsPlace) {
  const int port = free_port();
  auto other =
      std::async(std::launch::async, [&] { return connect(local_world(1, 2, port), {.timeout = patience}); });
  const Group group = connect(local_world(0, 2, port), {.timeout = patience, .axis = "model"});
  EXPECT_EQ(group.rank(), 0);
  EXPECT_EQ(other.get().rank(), 1);
  EXPECT_EQ(group.size(), 2);
  EXPECT_EQ(group.axis(), "model");
  EXPECT_EQ(group.timeout(), patience);
  EXPECT_THAT(group.transport(), StartsWith("gloo"));
}

TEST(Connect, MissingPeerIsNamedAfterTheWait) {
  const auto all = quickly([] { return outcomes({local_world(0, 2, free_port())}, 1s); });
  EXPECT_THAT(all[0], AllOf(HasSubstr("CommError"), HasSubstr("1 of 2 joined"), HasSubstr("missing: rank 1"),
                            HasSubstr("after 1 s"), HasSubstr("ddp_timeout")));
}

TEST(Connect, ThoseWhoCameAllNameTheMissing) {
  const int port = free_port();
  const auto all = quickly([&] { return outcomes({local_world(0, 4, port), local_world(2, 4, port)}, 3s); });
  EXPECT_THAT(all[0], AllOf(HasSubstr("2 of 4 joined"), HasSubstr("missing: rank 1, 3")));
}

TEST(Connect, MissingRankZeroIsNamed) {
  const int port = free_port();
  const auto all = quickly([&] { return outcomes({local_world(1, 2, port)}, 1s); });
  EXPECT_THAT(all[0],
              AllOf(HasSubstr("CommError"), HasSubstr("found no rank 0 at 127.0.0.1:" + std::to_string(port)),
                    HasSubstr("ddp_timeout")));
}

TEST(Connect, SameRankTwiceEndsAllAtOnce) {
  const int port = free_port();
  const auto all = quickly([&] {
    return outcomes({local_world(0, 3, port), local_world(1, 3, port), local_world(1, 3, port)}, patience);
  });
  EXPECT_THAT(all,
              Each(AllOf(HasSubstr("ConfigError"), HasSubstr("rank 1 of 3 came twice"), HasSubstr("RANK"))));
}

TEST(Connect, RankZeroTwiceEndsBothAtOnce) {
  const int port = free_port();
  const auto all = quickly([&] {
    return outcomes({local_world(0, 2, port), local_world(0, 2, port)}, patience);
  });
  EXPECT_THAT(all, Each(HasSubstr("ConfigError")));
  EXPECT_THAT(all, testing::Contains(HasSubstr("rank 0 of 2 came twice")));
  EXPECT_THAT(all, testing::Contains(HasSubstr("is in use by another rank 0")));
}

TEST(Connect, RanksThatDisagreeOnTheirNumberEndAtOnce) {
  const int port = free_port();
  const auto all = quickly([&] {
    return outcomes({local_world(0, 3, port), local_world(1, 4, port)}, patience);
  });
  EXPECT_THAT(all, Each(AllOf(HasSubstr("ConfigError"), HasSubstr("WORLD_SIZE"))));
}

TEST(Connect, PortOfAnotherProgramIsNamed) {
  const int fd = listen_on("127.0.0.1", 0);  // listens and never answers, as `nc -l` does
  const int port = port_of(fd);
  const auto all = quickly([&] { return outcomes({local_world(0, 2, port)}, patience); });
  ::close(fd);
  EXPECT_THAT(all[0], AllOf(HasSubstr("ConfigError"), HasSubstr("port " + std::to_string(port)),
                            HasSubstr("in use by another program"), HasSubstr("MASTER_PORT")));
}

TEST(Connect, PortOfAnotherProgramIsNamedByTheOtherRanksToo) {
  const int fd = listen_on("127.0.0.1", 0);
  const int port = port_of(fd);
  const auto all = quickly([&] { return outcomes({local_world(1, 2, port)}, 1s); });
  ::close(fd);
  EXPECT_THAT(all[0], AllOf(HasSubstr("CommError"), HasSubstr("does not answer as rank 0"),
                            HasSubstr("MASTER_PORT")));
}

TEST(Connect, UnresolvableAddressIsNamed) {
  World world = local_world(0, 2, 29555);
  world.master_addr = "no-such-host.invalid";
  const auto all = quickly([&] { return outcomes({world}, patience); });
  EXPECT_THAT(all[0],
              AllOf(HasSubstr("ConfigError"), HasSubstr("'no-such-host.invalid'"), HasSubstr("MASTER_ADDR")));
}

TEST(Connect, AddressOfAnotherMachineCannotBeServedHere) {
  EXPECT_TRUE(is_loopback("localhost"));
  EXPECT_TRUE(is_loopback("127.0.1.1"));
  EXPECT_FALSE(is_loopback("10.0.0.1"));
  EXPECT_EQ(numeric_address("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(own_address("127.0.0.1", true), "127.0.0.1");
  EXPECT_THROW(listen_on("203.0.113.7", 0), ConfigError);
}

}  // namespace
}  // namespace duoka::comm
