// SPDX-License-Identifier: Apache-2.0
#include "duoka/comm/mesh.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/comm/collectives.h"
#include "duoka/comm/duplicate.h"
#include "duoka/core/error.h"
#include "support/run_ranks.h"

namespace duoka::comm {
namespace {

using test::run_ranks;

/// World ranks of `group`, in the group's order.
std::vector<int64_t> members(const Group& group, int world_rank) {
  at::Tensor own = at::full({1}, world_rank, at::kLong);
  at::Tensor all = at::empty({group.size()}, at::kLong);
  all_gather_into(all, own, group);
  return {all.const_data_ptr<int64_t>(), all.const_data_ptr<int64_t>() + all.numel()};
}

TEST(Mesh, EveryAxisHasItsRanks) {
  run_ranks(8, [](const Group& world) {
    Mesh mesh(world, {.pipeline = 2, .data = 2, .tensor = 2});
    const int rank = world.rank();
    EXPECT_EQ(mesh.coordinate(Axis::tensor), rank % 2);
    EXPECT_EQ(mesh.coordinate(Axis::data), rank / 2 % 2);
    EXPECT_EQ(mesh.coordinate(Axis::pipeline), rank / 4);
    const int64_t pair = rank / 2 * 2;
    EXPECT_THAT(members(mesh.group({Axis::tensor}), rank), testing::ElementsAre(pair, pair + 1));
    EXPECT_THAT(members(mesh.group({Axis::pipeline}), rank), testing::ElementsAre(rank % 4, rank % 4 + 4));
    EXPECT_THAT(members(mesh.group({Axis::data, Axis::tensor}), rank),
                testing::ElementsAre(rank / 4 * 4, rank / 4 * 4 + 1, rank / 4 * 4 + 2, rank / 4 * 4 + 3));
    EXPECT_EQ(mesh.group({Axis::data, Axis::tensor}).axis(), "data+tensor");
    EXPECT_EQ(mesh.group({Axis::context}).size(), 1);
    EXPECT_EQ(mesh.group({Axis::shard, Axis::data}).axis(), "data");
    // Counts belong to an axis, not to the wires below.
    EXPECT_EQ(mesh.group({Axis::tensor}).traffic().count(Operation::all_gather).calls, 1);
    EXPECT_EQ(world.traffic().count(Operation::all_gather).calls, 0);
  });
}

TEST(Mesh, OfTheWorldIsTheWorldUnderAnotherName) {
  run_ranks(2, [](const Group& world) {
    Mesh mesh(world, {.shard = 2});
    EXPECT_EQ(mesh.group({Axis::shard}).wires(), world.wires());
    EXPECT_EQ(mesh.group({Axis::shard}).axis(), "shard");
  });
}

TEST(Mesh, WrongSizeIsRefused) {
  EXPECT_THROW(Mesh(Group(), {.tensor = 2}), ConfigError);
  EXPECT_THROW(Mesh(Group(), {.tensor = 0}), ConfigError);
}

TEST(Duplicate, HasWiresOfItsOwnAlsoAfterUnevenSplits) {
  test::run_ranks(3, [](const Group& group) {
    const Group uneven = split(group, group.rank() == 2 ? 1 : 0, "uneven");
    EXPECT_EQ(uneven.size(), group.rank() == 2 ? 1 : 2);
    const Group copy = duplicate(group, "copy");
    EXPECT_EQ(copy.axis(), "copy");
    EXPECT_EQ(copy.rank(), group.rank());
    EXPECT_EQ(copy.size(), 3);
    EXPECT_NE(copy.wires(), group.wires());
    at::Tensor x = at::full({1}, group.rank() + 1, at::kInt);
    all_reduce(x, Op::sum, copy);
    EXPECT_EQ(x.item<int>(), 6);
    EXPECT_EQ(group.traffic().count(Operation::all_reduce).calls, 0);
    const Group other = split(group, group.rank() == 0 ? 1 : 0, "other");
    EXPECT_EQ(other.size(), group.rank() == 0 ? 1 : 2);
  });
  EXPECT_EQ(duplicate(Group(), "alone").size(), 1);
}

TEST(PointToPoint, RingPassesTensorsOnUnderTheirTags) {
  run_ranks(3, [](const Group& group) {
    const int next = (group.rank() + 1) % 3, previous = (group.rank() + 2) % 3;
    std::vector<at::Tensor> out, in;
    std::vector<Pending> pending;
    for (int tag = 0; tag < 2; ++tag) {
      out.push_back(at::full({tag + 1, 5}, 10.0 * group.rank() + tag));
      in.push_back(at::empty({tag + 1, 5}));
      pending.push_back(start_send(out.back(), next, tag, group));
    }
    for (int tag = 1; tag >= 0; --tag)
      pending.push_back(start_receive(in[static_cast<size_t>(tag)], previous, tag, group));
    for (Pending& one : pending) one.wait();
    for (int tag = 0; tag < 2; ++tag)
      EXPECT_TRUE(at::equal(in[static_cast<size_t>(tag)], at::full({tag + 1, 5}, 10.0 * previous + tag)));
    EXPECT_EQ(group.traffic().count(Operation::send), (Traffic::Count{2, 60}));
  });
}

TEST(PointToPoint, OneselfAndStrangersAreRefused) {
  run_ranks(2, [](const Group& group) {
    at::Tensor x = at::zeros({2});
    EXPECT_THROW((void)start_send(x, group.rank(), 0, group), StateError);
    EXPECT_THROW((void)start_receive(x, 2, 0, group), StateError);
    barrier(group);  // who leaves at once may close on a peer that is still connecting
  });
}

TEST(AllToAll, TransposesRanksAndRows) {
  for (const int n : {1, 2, 4})
    run_ranks(n, [&](const Group& group) {
      const at::Tensor in = at::arange(n * 3, at::kFloat).view({n, 3}).add(100.0 * group.rank());
      at::Tensor out = at::empty({n, 3});
      all_to_all_into(out, in, group);
      for (int peer = 0; peer < n; ++peer)
        EXPECT_TRUE(at::equal(out[peer], at::arange(3, at::kFloat).add(3.0 * group.rank() + 100.0 * peer)));
    });
}

}  // namespace
}  // namespace duoka::comm
