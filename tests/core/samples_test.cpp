// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/samples.h"

#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace duoka {
namespace {

TEST(MakeSamples, IsAStreamOfRowsOfOneTrainedToken) {
  const std::vector<int64_t> numbers{5, 0, 9'000'000'000};
  const Stream stream = make_samples(numbers);
  EXPECT_TRUE(at::equal(stream.ids, at::tensor(numbers)));
  EXPECT_TRUE(at::equal(stream.trained, at::tensor({0, 1, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(stream.positions, at::zeros({3}, at::kLong)));
  EXPECT_TRUE(at::equal(stream.segments, at::tensor({0, 1, 2, 3}, at::kInt)));
  EXPECT_EQ(stream.segment_offsets, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(stream.segment_keys, (std::vector<uint64_t>{5, 0, 9'000'000'000}));
  EXPECT_EQ(stream.num_tokens(), 3);
  EXPECT_EQ(stream.num_segments(), 3);
  EXPECT_EQ(stream.num_trained, 3);
  EXPECT_EQ(stream.max_segment, 1);
  EXPECT_FALSE((stream.targets == ignore_index).any().item<bool>());
}

TEST(MakeSamples, OfNothingIsEmpty) {
  const Stream stream = make_samples({});
  EXPECT_EQ(stream.num_tokens(), 0);
  EXPECT_EQ(stream.num_segments(), 0);
  EXPECT_EQ(stream.num_trained, 0);
  EXPECT_EQ(stream.max_segment, 0);
  EXPECT_EQ(stream.segments.numel(), 1);
}

}  // namespace
}  // namespace duoka
