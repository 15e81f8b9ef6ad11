// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/stream.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"

namespace duoka {
namespace {

TEST(MakeStream, LaysRowsEndToEndAndShiftsOnce) {
  const std::vector<int32_t> ids_a{5, 6, 7}, labels_a{-100, 6, 7};
  const std::vector<int32_t> ids_b{8, 9}, labels_b{8, 9};
  const RowView rows[] = {{ids_a, labels_a, 1}, {ids_b, labels_b, 2}};
  const Stream s = make_stream(rows);
  EXPECT_TRUE(at::equal(s.ids, at::tensor({5, 6, 7, 8, 9}, at::kLong)));
  EXPECT_TRUE(at::equal(s.targets, at::tensor({6, 7, -100, 9, -100}, at::kLong)));
  EXPECT_TRUE(at::equal(s.positions, at::tensor({0, 1, 2, 0, 1}, at::kLong)));
  EXPECT_TRUE(at::equal(s.trained, at::tensor({0, 1, 3}, at::kLong)));
  EXPECT_EQ(s.segment_offsets, (std::vector<int64_t>{0, 3, 5}));
  EXPECT_EQ(s.num_trained, 3);
  EXPECT_EQ(s.max_segment, 3);
}

TEST(MakeStream, RefusesRowsThatDisagree) {
  const std::vector<int32_t> ids{1, 2}, labels{1};
  const RowView rows[] = {{ids, labels, 0}};
  EXPECT_THROW(make_stream(rows), StateError);
}

}  // namespace
}  // namespace duoka
