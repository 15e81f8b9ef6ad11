// SPDX-License-Identifier: Apache-2.0
// The allocator of CPU tensors: what it counts, that blocks are used again, and that it never holds more
// pages than what once lived.
#include "duoka/core/host_allocator.h"

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "core/block_arena.h"

namespace duoka {
namespace {

using detail::BlockArena;

constexpr size_t mib = size_t{1} << 20;

TEST(BlockArena, FreeNeighboursBecomeOne) {
  BlockArena arena(8 * mib);
  void* blocks[8];
  for (auto& block : blocks) block = arena.take(mib);
  EXPECT_EQ(arena.take(1), nullptr) << "there is no more room";
  for (const int i : {1, 3, 2, 0, 7, 5, 6, 4}) arena.give(blocks[i], mib);
  EXPECT_EQ(arena.take(8 * mib), blocks[0]);
}

TEST(BlockArena, ABlockIsUsedAgainWithItsPages) {
  BlockArena arena(64 * mib);
  void* first = arena.take(4 * mib);
  std::memset(first, 7, 4 * mib);
  arena.give(first, 4 * mib);
  EXPECT_EQ(arena.cached_bytes(), 4 * mib);
  auto* again = static_cast<char*>(arena.take(3 * mib));
  EXPECT_EQ(again, first);
  EXPECT_EQ(again[3 * mib - 1], 7) << "the system has cleared it in between";
  EXPECT_EQ(arena.cached_bytes(), mib);
  arena.give(again, 3 * mib);
  arena.release();
  EXPECT_EQ(arena.cached_bytes(), 0U);
  again = static_cast<char*>(arena.take(3 * mib));
  EXPECT_EQ(again[0], 0) << "released pages come back clear";
}

TEST(BlockArena, HoldsNoMorePagesThanOnceLived) {
  BlockArena arena;
  std::mt19937 random(1);
  std::vector<std::pair<char*, size_t>> living;
  size_t live = 0, most = 0;
  for (int i = 0; i < 4000; ++i) {
    if (living.size() > 40 || (!living.empty() && random() % 2 == 0)) {
      const size_t which = random() % living.size();
      const auto [block, bytes] = living[which];
      ASSERT_EQ(block[0], static_cast<char>(bytes >> 16)) << "two blocks overlap";
      ASSERT_EQ(block[bytes - 1], static_cast<char>(bytes >> 16));
      arena.give(block, bytes);
      live -= bytes;
      living.erase(living.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const size_t bytes = (1 + random() % 300) << 16;
      auto* block = static_cast<char*>(arena.take(bytes));
      block[0] = block[bytes - 1] = static_cast<char>(bytes >> 16);
      living.emplace_back(block, bytes);
      live += bytes;
      most = std::max(most, live);
    }
    ASSERT_LE(live + arena.cached_bytes(), most);
  }
}

TEST(HostAllocator, CountsByClassOfWhereATensorWasMade) {
  host_allocator::install();
  host_allocator::install();
  const int64_t before = host_allocator::live_bytes(MemoryClass::gradients);
  const int64_t all_before = host_allocator::live_bytes();
  host_allocator::reset_peak();
  at::Tensor kept;
  {
    const MemoryScope scope(MemoryClass::gradients);
    kept = at::full({1000, 1000}, 3.0F, at::kFloat);
    const MemoryScope inner(MemoryClass::activations);
    const at::Tensor gone = at::empty({100}, at::kFloat);
    EXPECT_EQ(host_allocator::live_bytes(MemoryClass::activations), 400);
  }
  EXPECT_EQ(host_allocator::live_bytes(MemoryClass::gradients) - before, 4'000'000);
  EXPECT_EQ(host_allocator::live_bytes(MemoryClass::activations), 0);
  EXPECT_GE(host_allocator::peak_bytes(), all_before + 4'000'400);
  EXPECT_EQ(kept.data_ptr<float>()[999'999], 3.0F);
  // Freed on another thread, it is still of its class.
  std::thread([gone = std::move(kept)]() mutable { gone.reset(); }).join();
  EXPECT_EQ(host_allocator::live_bytes(MemoryClass::gradients), before);
  EXPECT_GE(host_allocator::cached_bytes(), 4'000'000);
  host_allocator::release_cache();
  EXPECT_EQ(host_allocator::cached_bytes(), 0);
}

TEST(HostAllocator, TellsHowMuchItCouldNotGet) {
  host_allocator::install();
  try {
    const at::Tensor one = at::empty({int64_t{1} << 50}, at::kByte);
    FAIL() << "a petabyte";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("no memory for a tensor of 1125899906842624 bytes"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace duoka
