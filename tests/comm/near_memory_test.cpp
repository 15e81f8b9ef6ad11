// SPDX-License-Identifier: Apache-2.0
// Collectives that read the memory of peers, beside the same over Gloo, and what they do when a peer fails.
// Each rank has both kinds of wires; near memory is used from the first byte on.
#include "comm/near_memory.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/c10d_backend.h"
#include "comm/started.h"
#include "comm/sum_rows.h"
#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "support/run_ranks.h"

namespace duoka::comm {
namespace {

using test::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<at::ScalarType> dtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                            at::kInt,   at::kLong,   at::kByte};

at::Tensor numbers(int rank, at::IntArrayRef shape, at::ScalarType dtype) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(rank) + 5);
  const at::Tensor drawn = at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble));
  return (c10::isFloatingType(dtype) ? drawn : drawn.mul(50).abs().round()).to(dtype);
}

bool is_small_float(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

/// `all` combined in order, f16 and bf16 in f32 and rounded once.
at::Tensor combined(const std::vector<at::Tensor>& all, Op op) {
  const at::ScalarType dtype = all.front().scalar_type();
  const auto wide = [&](const at::Tensor& x) { return is_small_float(dtype) ? x.to(at::kFloat) : x; };
  at::Tensor out = wide(all.front());
  for (size_t i = 1; i < all.size(); ++i) {
    const at::Tensor next = wide(all[i]);
    out = op == Op::sum ? out + next : op == Op::max ? at::maximum(out, next) : at::minimum(out, next);
  }
  return out.to(dtype);
}

/// What all of `n` ranks bring.
std::vector<at::Tensor> of_all(int n, at::IntArrayRef shape, at::ScalarType dtype) {
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < n; ++rank) all.push_back(numbers(rank, shape, dtype));
  return all;
}

Group with_near_bytes(const std::shared_ptr<KeyStore>& store, int rank, int n, int64_t near_bytes,
                      std::chrono::milliseconds timeout = test::patience) {
  return {"data", make_wires(store, {.rank = rank, .size = n, .timeout = timeout, .near_bytes = near_bytes})};
}

/// Runs `body` as n threads, each with a group whose wires use near memory from `near_bytes` on.
void run_near(int n, const std::function<void(const Group&)>& body, int64_t near_bytes = 0,
              std::chrono::milliseconds timeout = test::patience) {
  const auto store = store_in_process();
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < n; ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      at::set_num_threads(1);
      const Group group = with_near_bytes(store, rank, n, near_bytes, timeout);
      barrier(group);
      body(group);
    }));
  for (auto& rank : ranks) rank.wait();
  for (auto& rank : ranks) rank.get();
}

/// Whether this system lets a process read its own memory this way.
bool can_read() {
  NearMemory memory;
  return memory.reaches({memory.identity()});
}

#define SKIP_UNLESS_NEAR() \
  if (!can_read()) GTEST_SKIP() << "this system does not let processes read each other"

class Near : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { SKIP_UNLESS_NEAR(); }
  const int n = GetParam();
};

TEST(CombineRows, IsTheSameInEveryDtypeAndSize) {
  for (const auto dtype : dtypes)
    for (const int64_t numel : {1, 7, 64, 511, 512, 1500})
      for (const Op op : {Op::sum, Op::max, Op::min}) {
        auto rows = of_all(3, {numel}, dtype);
        const at::Tensor wanted = combined(rows, op);
        const std::vector<const void*> from = {rows[0].data_ptr(), rows[1].data_ptr(), rows[2].data_ptr()};
        combine_rows(from, rows[1].data_ptr(), numel, dtype, op);  // in place
        EXPECT_TRUE(at::equal(rows[1], wanted)) << dtype << " " << numel;
      }
  EXPECT_THROW(combine_rows({}, nullptr, 0, at::kBool, Op::sum), StateError);
}

/// Sizes whose parts are empty, odd, and larger than a piece.
const std::vector<int64_t> sizes = {1, 2, 63, 65, 129, 70'001};

TEST_P(Near, AllReduceIsTheSumInTheOrderOfRanks) {
  run_near(n, [&](const Group& group) {
    EXPECT_EQ(group.transport(), "gloo + cma");
    for (const auto dtype : dtypes)
      for (const int64_t numel : sizes)
        for (const Op op : {Op::sum, Op::max, Op::min}) {
          at::Tensor x = numbers(group.rank(), {numel}, dtype);
          all_reduce(x, op, group);
          EXPECT_TRUE(at::equal(x, combined(of_all(n, {numel}, dtype), op))) << dtype << " " << numel;
        }
  });
}

TEST_P(Near, TheOthersGiveWhatGlooGives) {
  const auto store = store_in_process();
  run_near(n, [&](const Group& group) {
    const Group gloo = with_near_bytes(store, group.rank(), n, -1);
    EXPECT_EQ(gloo.transport(), "gloo");
    for (const auto dtype : dtypes)
      for (const int64_t numel : sizes) {
        const at::Tensor many = numbers(group.rank(), {n, numel}, dtype), one = many[n - 1].contiguous();
        at::Tensor near = at::empty_like(many), far = at::empty_like(many);
        all_gather_into(near, one, group);
        all_gather_into(far, one, gloo);
        EXPECT_TRUE(at::equal(near, far)) << "all_gather " << dtype << numel;
        all_to_all_into(near, many, group);
        all_to_all_into(far, many, gloo);
        EXPECT_TRUE(at::equal(near, far)) << "all_to_all " << dtype << numel;
        near.copy_(many), far.copy_(many);
        broadcast(near, n - 1, group);
        broadcast(far, n - 1, gloo);
        EXPECT_TRUE(at::equal(near, far)) << "broadcast " << dtype << numel;
        at::Tensor near_row = at::empty_like(one), far_row = at::empty_like(one);
        reduce_scatter_into(near_row, many, group);
        reduce_scatter_into(far_row, many, gloo);
        EXPECT_TRUE(at::equal(near_row, far_row)) << "reduce_scatter " << dtype << numel;
        near.copy_(many), far.copy_(many);
        all_reduce(near, Op::sum, group);
        all_reduce(far, Op::sum, gloo);
        // Gloo rounds sums of three and more in an order of its own.
        const bool is_exact = n == 2 || !c10::isFloatingType(dtype);
        EXPECT_TRUE(!is_exact || at::equal(near, far)) << "all_reduce " << dtype << numel;
      }
    barrier(gloo);
  });
}

TEST_P(Near, RowsMayLieInTheWholeAlready) {
  run_near(n, [&](const Group& group) {
    const std::vector<at::Tensor> all = of_all(n, {n, 3000}, at::kFloat);
    at::Tensor gathered = all[static_cast<size_t>(group.rank())].clone();
    all_gather_into(gathered, gathered[group.rank()], group);
    for (int rank = 0; rank < n; ++rank)
      EXPECT_TRUE(at::equal(gathered[rank], all[static_cast<size_t>(rank)][rank]));
    at::Tensor scattered = all[static_cast<size_t>(group.rank())].clone();
    at::Tensor row = scattered[group.rank()];
    reduce_scatter_into(row, scattered, group);
    EXPECT_TRUE(at::equal(row, combined(all, Op::sum)[group.rank()]));
  });
}

TEST_P(Near, ManyOfBothKindsUnderWayAtOnceArriveEachInItsOwnBuffer) {
  constexpr int count = 40;
  run_near(
      n,
      [&](const Group& group) {
        std::vector<at::Tensor> tensors;
        std::vector<Pending> pending;
        for (int i = 0; i < count; ++i) {
          // Every other one is too small for near memory.
          tensors.push_back(numbers(group.rank() + 100 * i, {i % 2 == 0 ? 20'000 + i : 200 + i}, at::kInt));
          pending.push_back(start_all_reduce(tensors.back(), Op::sum, group));
        }
        for (int i = count - 1; i >= 0; --i) {
          pending[static_cast<size_t>(i)].wait();
          at::Tensor& x = tensors[static_cast<size_t>(i)];
          at::Tensor sum = at::zeros_like(x);
          for (int rank = 0; rank < n; ++rank) sum += numbers(rank + 100 * i, x.sizes(), at::kInt);
          EXPECT_TRUE(at::equal(x, sum)) << i;
        }
      },
      8'000);
}

TEST_P(Near, WhoHasWaitedHoldsItsTensorsAloneAndMayChangeThem) {
  run_near(n, [&](const Group& group) {
    for (int round = 0; round < 50; ++round) {
      at::Tensor one = at::full({5000}, group.rank() + round, at::kLong),
                 many = at::empty({n, 5000}, at::kLong);
      all_gather_into(many, one, group);
      EXPECT_EQ(one.storage().use_count(), 1);
      one.fill_(-1);  // a peer that still read would see it
      for (int rank = 0; rank < n; ++rank) EXPECT_TRUE(at::all(many[rank] == rank + round).item<bool>());
    }
  });
}

TEST_P(Near, PartsOfAGroupReadEachOther) {
  run_near(n, [&](const Group& group) {
    const Group half = split(group, group.rank() % 2, "half");
    at::Tensor x = at::full({3000}, group.rank() + 1.0F);
    all_reduce(x, Op::sum, half);
    float sum = 0;
    for (int rank = group.rank() % 2; rank < n; rank += 2) sum += static_cast<float>(rank + 1);
    EXPECT_EQ(x[2999].item<float>(), sum);
    const bool is_alone = half.size() == 1;
    EXPECT_EQ(half.transport(), is_alone ? "none" : "gloo + cma");
    EXPECT_EQ(half.traffic().count(Operation::all_reduce).bytes, is_alone ? 0 : 12'000);
    barrier(group);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Near, ::testing::Values(2, 3, 4));

TEST(NearRefused, WhereOneRankDoesNotWantIt) {
  const auto store = store_in_process();
  auto other = std::async(std::launch::async, [&] {
    const Group group = with_near_bytes(store, 1, 2, -1);
    barrier(group);
    return group.transport();
  });
  const Group group = with_near_bytes(store, 0, 2, 0);
  barrier(group);
  EXPECT_EQ(group.transport(), "gloo");
  EXPECT_EQ(other.get(), "gloo");
}

TEST(NearRefused, WhereTheEnvironmentSaysSo) {
  setenv("DUOKA_NEAR_MEMORY", "0", 1);
  run_ranks(2, [](const Group& group) { EXPECT_EQ(group.transport(), "gloo"); });
  setenv("DUOKA_NEAR_MEMORY", "no", 1);
  EXPECT_THROW(run_ranks(2, [](const Group&) {}), ConfigError);
  unsetenv("DUOKA_NEAR_MEMORY");
}

TEST(NearRefused, WhereAPeerIsOnAnotherMachineOrIsNotWhoItSays) {
  SKIP_UNLESS_NEAR();
  NearMemory memory, other;
  EXPECT_TRUE(memory.reaches({memory.identity(), other.identity()}));
  NearIdentity elsewhere = other.identity();
  elsewhere.machine.front() ^= 1;
  EXPECT_FALSE(memory.reaches({memory.identity(), elsewhere}));
  elsewhere = other.identity();
  elsewhere.pid_namespace += 1;
  EXPECT_FALSE(memory.reaches({memory.identity(), elsewhere}));
  elsewhere = other.identity();
  elsewhere.nonce += 1;
  EXPECT_FALSE(memory.reaches({memory.identity(), elsewhere}));
}

std::string error_of_read(const NearMemory& memory, int rank, const void* address, int64_t num_bytes) {
  std::vector<char> out(static_cast<size_t>(num_bytes));
  try {
    memory.read(rank, reinterpret_cast<uint64_t>(address), out.data(), num_bytes);
  } catch (const CommError& error) {
    return error.what();
  }
  return "";
}

TEST(NearFailure, MemoryThatIsNotThereAndAProcessThatHasEndedAreErrors) {
  SKIP_UNLESS_NEAR();
  NearMemory memory;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    ::close(ends[1]);
    [[maybe_unused]] const auto end = read(ends[0], &byte, 1);
    _exit(0);
  }
  ::close(ends[0]);
  // A copy of this process has the nonce where this one has it.
  NearIdentity copy = memory.identity();
  copy.pid = child;
  ASSERT_TRUE(memory.reaches({memory.identity(), copy}));
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(error_of_read(memory, 1, &memory, sizeof memory), "");
  EXPECT_THAT(error_of_read(memory, 1, reinterpret_cast<void*>(page), 8),
              AllOf(HasSubstr("rank 1"), HasSubstr(std::to_string(child)), HasSubstr("Bad address")));
  ::close(ends[1]);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(error_of_read(memory, 1, &memory, sizeof memory), HasSubstr("it has ended"));
}

/// The CommError of `body`, "" without one.
std::string comm_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const CommError& error) {
    return error.what();
  }
  return "";
}

TEST(NearFailure, RanksThatWantDifferentThingsAllSayWhoWantsWhat) {
  SKIP_UNLESS_NEAR();
  run_near(2, [](const Group& group) {
    at::Tensor x = at::ones({5000 + group.rank()}), rows = at::empty({2, 5000});
    const auto wishes = AllOf(HasSubstr("all_reduce over axis 'data' failed on rank"),
                              HasSubstr("rank 0 all_reduce (sum) of 5000 Float"),
                              HasSubstr("rank 1 all_reduce (sum) of 5001 Float"));
    EXPECT_THAT(comm_error([&] { all_reduce(x, Op::sum, group); }), wishes);
    // The group is of no use afterwards.
    EXPECT_THAT(comm_error([&] { all_reduce(x, Op::sum, group); }), wishes);
  });
}

TEST(NearFailure, PeersOfARankThatThrowsFailAtOnce) {
  SKIP_UNLESS_NEAR();
  EXPECT_THROW(run_near(3,
                        [&](const Group& group) {
                          at::Tensor x = at::ones({50'000});
                          all_reduce(x, Op::sum, group);
                          if (group.rank() == 0) throw DataError("row 7 is broken");
                          EXPECT_THAT(comm_error([&] { all_reduce(x, Op::sum, group); }),
                                      HasSubstr("all_reduce over axis 'data' failed on rank"));
                        }),
               DataError);
}

TEST(NearFailure, PeerThatStaysAwayIsGivenUpAfterTheTimeOut) {
  SKIP_UNLESS_NEAR();
  std::promise<void> has_given_up;
  run_near(
      2,
      [&](const Group& group) {
        if (group.rank() == 1) {
          EXPECT_EQ(has_given_up.get_future().wait_for(60s), std::future_status::ready);
          return;
        }
        at::Tensor x = at::ones({50'000});
        const auto begin = Clock::now();
        EXPECT_THROW(all_reduce(x, Op::sum, group), CommError);
        EXPECT_GT(Clock::now() - begin, 1800ms);
        has_given_up.set_value();
      },
      0, 2s);
}

TEST(NearFailure, ClosingAGroupDoesNotWaitForAStuckPeer) {
  SKIP_UNLESS_NEAR();
  const auto store = store_in_process();
  std::promise<void> is_closed;
  auto stuck = std::async(std::launch::async, [&] {
    const Group group = with_near_bytes(store, 1, 2, 0);
    return is_closed.get_future().wait_for(60s);
  });
  {
    const Group group = with_near_bytes(store, 0, 2, 0);
    at::Tensor x = at::ones({50'000});
    const Pending dropped = start_all_reduce(x, Op::sum, group);
  }
  is_closed.set_value();
  EXPECT_EQ(stuck.get(), std::future_status::ready);
}

// With real processes.

TEST(NearProcesses, ReadEachOther) {
  SKIP_UNLESS_NEAR();
  for (const char* num_ranks : {"2", "3"}) {
    Started run({num_ranks, "near"});
    EXPECT_EQ(run.wait(), 0) << run.err();
    EXPECT_EQ(run.out(), "near memory: all equal over gloo + cma\n");
  }
}

TEST(NearProcesses, RankKilledInTheMiddleOfALargeSumIsNamedAndNobodyHangs) {
  SKIP_UNLESS_NEAR();
  Started run({"3", "near", "kill"});
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("error: rank 1 of 3"), HasSubstr("signal 9 (SIGKILL)")));
}

TEST(NearProcesses, RankThatIsStoppedIsGivenUpAfterTheTimeOut) {
  SKIP_UNLESS_NEAR();
  Started run({"2", "near", "stop"});
  EXPECT_EQ(run.wait(), CommError("").exit_code());
  EXPECT_THAT(run.err(), AllOf(HasSubstr("error: CommError on rank 0 of 2: all_reduce over axis 'data'"),
                               HasSubstr("Timed out")));
}

}  // namespace
}  // namespace duoka::comm
