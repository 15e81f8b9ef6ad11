// SPDX-License-Identifier: Apache-2.0
// Each collective against plain arithmetic, on 1, 2, 3 and 4 ranks.
#include "duoka/comm/collectives.h"

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "support/run_ranks.h"

namespace duoka::comm {
namespace {

using test::run_ranks;

/// What rank `rank` brings: the same numbers wherever they are asked for.
at::Tensor numbers(int rank, at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(rank) + 17);
  const at::Tensor drawn = at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble));
  return (c10::isFloatingType(dtype) ? drawn : drawn.mul(20).abs().round()).to(dtype);
}

/// Sum over ranks in double.
at::Tensor exact_sum(int num_ranks, at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  at::Tensor sum = at::zeros(shape, at::kDouble);
  for (int rank = 0; rank < num_ranks; ++rank) sum += numbers(rank, shape, dtype).to(at::kDouble);
  return sum;
}

at::Tensor stacked(int num_ranks, at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  std::vector<at::Tensor> rows;
  for (int rank = 0; rank < num_ranks; ++rank) rows.push_back(numbers(rank, shape, dtype));
  return at::stack(rows);
}

class Collectives : public testing::TestWithParam<int> {
 protected:
  const int n = GetParam();
};

TEST_P(Collectives, AllReduceSums) {
  run_ranks(n, [&](const Group& group) {
    EXPECT_EQ(group.size(), n);
    at::Tensor x = numbers(group.rank(), {7, 33});
    all_reduce(x, Op::sum, group);
    EXPECT_TRUE(at::allclose(x.to(at::kDouble), exact_sum(n, {7, 33}), 1e-6, 1e-6));
  });
}

TEST_P(Collectives, AllReduceSumsEveryDtype) {
  run_ranks(n, [&](const Group& group) {
    for (const auto dtype :
         {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte}) {
      at::Tensor x = numbers(group.rank(), {129}, dtype);
      all_reduce(x, Op::sum, group);
      EXPECT_EQ(x.scalar_type(), dtype);
      // n-1 roundings to 11 (f16) or 8 (bf16) bits.
      const double tolerance = dtype == at::kBFloat16 ? n * 0.008 : dtype == at::kHalf ? n * 0.001 : 1e-6;
      EXPECT_TRUE(at::allclose(x.to(at::kDouble), exact_sum(n, {129}, dtype), tolerance, tolerance)) << dtype;
    }
  });
}

TEST_P(Collectives, AllReduceFindsExtremesExactly) {
  run_ranks(n, [&](const Group& group) {
    at::Tensor largest = numbers(group.rank(), {65});
    at::Tensor smallest = largest.clone();
    all_reduce(largest, Op::max, group);
    all_reduce(smallest, Op::min, group);
    EXPECT_TRUE(at::equal(largest, stacked(n, {65}).amax(0)));
    EXPECT_TRUE(at::equal(smallest, stacked(n, {65}).amin(0)));
  });
}

TEST_P(Collectives, SumsHaveTheSameBitsOnAllRanksAndInEveryRun) {
  std::vector<at::Tensor> seen;
  std::mutex mutex;
  for (int run = 0; run < 2; ++run) {
    run_ranks(n, [&](const Group& group) {
      at::Tensor x = numbers(group.rank(), {4099});
      all_reduce(x, Op::sum, group);
      const std::lock_guard lock(mutex);
      seen.push_back(x);
    });
  }
  for (const at::Tensor& x : seen) EXPECT_TRUE(at::equal(x, seen.front()));
}

TEST(TwoRanks, SumIsTheRoundedSumInTheTensorsOwnDtype) {
  run_ranks(2, [](const Group& group) {
    for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
      at::Tensor x = numbers(group.rank(), {1001}, dtype);
      all_reduce(x, Op::sum, group);
      EXPECT_TRUE(at::equal(x, numbers(0, {1001}, dtype) + numbers(1, {1001}, dtype))) << dtype;
    }
  });
}

TEST_P(Collectives, BroadcastGivesTheRootsBits) {
  run_ranks(n, [&](const Group& group) {
    for (int root = 0; root < n; ++root) {
      at::Tensor x = numbers(group.rank(), {3, 5}, at::kBFloat16);
      broadcast(x, root, group);
      EXPECT_TRUE(at::equal(x, numbers(root, {3, 5}, at::kBFloat16)));
    }
  });
}

TEST_P(Collectives, AllGatherLaysRanksInOrder) {
  run_ranks(n, [&](const Group& group) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
      const at::Tensor in = numbers(group.rank(), {2, 3}, dtype);
      at::Tensor out = at::empty({n, 2, 3}, dtype);
      all_gather_into(out, in, group);
      EXPECT_TRUE(at::equal(out, stacked(n, {2, 3}, dtype)));
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesTheOwnRowOfTheSum) {
  run_ranks(n, [&](const Group& group) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const at::Tensor in = numbers(group.rank(), {n, 11}, dtype);
      const at::Tensor before = in.clone();
      at::Tensor out = at::empty({11}, dtype);
      reduce_scatter_into(out, in, group);
      const double tolerance = dtype == at::kBFloat16 ? n * 0.008 : 1e-6;
      EXPECT_TRUE(at::allclose(out.to(at::kDouble), exact_sum(n, {n, 11}, dtype)[group.rank()], tolerance,
                               tolerance));
      EXPECT_TRUE(at::equal(in, before)) << "the input was changed";
    }
  });
}

TEST_P(Collectives, ManyUnderWayAtOnceArriveEachInItsOwnBuffer) {
  run_ranks(n, [&](const Group& group) {
    std::vector<at::Tensor> tensors;
    std::vector<Pending> pending;
    for (int i = 0; i < 20; ++i) {
      tensors.push_back(numbers(group.rank() + 100 * i, {50 + i}));
      pending.push_back(start_all_reduce(tensors.back(), Op::sum, group));
    }
    for (int i = 19; i >= 0; --i) {
      pending[static_cast<size_t>(i)].wait();
      at::Tensor sum = at::zeros({50 + i}, at::kDouble);
      for (int rank = 0; rank < n; ++rank) sum += numbers(rank + 100 * i, {50 + i}).to(at::kDouble);
      EXPECT_TRUE(at::allclose(tensors[static_cast<size_t>(i)].to(at::kDouble), sum, 1e-6, 1e-6)) << i;
    }
  });
}

TEST_P(Collectives, WhoHasWaitedHoldsItsTensorsAlone) {
  run_ranks(n, [&](const Group& group) {
    at::Tensor many = at::ones({n, 8}), one = at::ones({8}), other = at::ones({n, 8});
    all_reduce(many, Op::sum, group);
    broadcast(many, 0, group);
    all_gather_into(many, one, group);
    reduce_scatter_into(one, many, group);
    all_to_all_into(other, many, group);
    // Gloo's own thread lets go of them a moment later.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (const at::Tensor& x : {many, one, other})
      while (x.storage().use_count() > 1)
        ASSERT_LT(std::chrono::steady_clock::now(), limit) << x.storage().use_count();
  });
}

TEST_P(Collectives, TextGoesToAllRanks) {
  run_ranks(n, [&](const Group& group) {
    const std::string sent("多卡\0 x", 9);
    std::string words = group.rank() == n - 1 ? sent : "something longer than that";
    broadcast_text(words, n - 1, group);
    EXPECT_EQ(words, sent);
    // Lengths differ; one is empty.
    const auto all = all_gather_text(std::string(static_cast<size_t>(3 * group.rank()), 'x'), group);
    EXPECT_EQ(all.size(), static_cast<size_t>(n));
    for (size_t rank = 0; rank < all.size(); ++rank) EXPECT_EQ(all[rank], std::string(3 * rank, 'x'));
    std::string nothing;
    broadcast_text(nothing, 0, group);
    EXPECT_EQ(nothing, "");
  });
}

TEST_P(Collectives, EmptyTensorsAreNoTrouble) {
  run_ranks(n, [&](const Group& group) {
    at::Tensor x = at::empty({0, 4});
    all_reduce(x, Op::sum, group);
    broadcast(x, 0, group);
    barrier(group);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4));

TEST(Solo, CollectivesAreTheIdentity) {
  const Group solo;
  EXPECT_EQ(solo.rank(), 0);
  EXPECT_EQ(solo.size(), 1);
  at::Tensor x = numbers(0, {6});
  auto pending = start_all_reduce(x, Op::sum, solo);
  pending.wait();
  pending.wait();
  EXPECT_TRUE(at::equal(x, numbers(0, {6})));
  at::Tensor out = at::empty({1, 6});
  all_gather_into(out, x, solo);
  EXPECT_TRUE(at::equal(out[0], x));
  reduce_scatter_into(out, x, solo);
  EXPECT_TRUE(at::equal(out[0], x));
  std::string words = "kept";
  broadcast_text(words, 0, solo);
  EXPECT_EQ(words, "kept");
  barrier(solo);
  EXPECT_EQ(solo.traffic().total(), Traffic::Count{});
}

}  // namespace
}  // namespace duoka::comm
