// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/distributed_sampler.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/data/sampler.h"

namespace duoka::data {
namespace {

TEST(DistributedSampler, BatchesAreTheSameOnAnyNumberOfRanks) {
  const auto order = epoch_order(50, /*seed=*/7, /*epoch=*/3);
  for (const int size : {1, 2, 3, 40}) {
    std::vector<int64_t> joined;
    for (size_t number = 0; number < 2; ++number) {
      std::vector<std::vector<int64_t>> parts;
      for (int rank = 0; rank < size; ++rank) {
        const auto batches = DistributedSampler(50, 32, 7, rank, size).epoch(3);
        ASSERT_EQ(batches.size(), 2U);
        EXPECT_EQ(batches[number].num_rows, number == 0 ? 32 : 18);
        parts.push_back(batches[number].rows);
      }
      const auto most = parts[0].size();
      for (size_t i = 0; i < most; ++i)
        for (const auto& part : parts)
          if (i < part.size()) joined.push_back(part[i]);
      for (const auto& part : parts) EXPECT_LE(most - part.size(), 1U) << size << " ranks";
    }
    EXPECT_EQ(joined, order) << size << " ranks";  // each row once
  }
}

TEST(DistributedSampler, EpochsDifferAndRepeat) {
  const DistributedSampler sampler(100, 10, 1, 1, 2);
  EXPECT_EQ(sampler.batches_per_epoch(), 10);
  EXPECT_EQ(sampler.epoch(4)[0].rows, sampler.epoch(4)[0].rows);
  EXPECT_NE(sampler.epoch(4)[0].rows, sampler.epoch(5)[0].rows);
  EXPECT_NE(sampler.epoch(4)[0].rows, DistributedSampler(100, 10, 2, 1, 2).epoch(4)[0].rows);
}

TEST(DistributedSampler, RefusesWhatMakesNoBatch) {
  EXPECT_THROW(DistributedSampler(0, 32, 1, 0, 1), ConfigError);
  EXPECT_THROW(DistributedSampler(10, 0, 1, 0, 1), ConfigError);
  EXPECT_THROW(DistributedSampler(10, 2, 1, 2, 2), StateError);
  EXPECT_THROW(DistributedSampler(10, 2, 1, -1, 2), StateError);
}

}  // namespace
}  // namespace duoka::data
