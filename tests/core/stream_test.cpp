// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/stream.h"

#include <algorithm>
#include <random>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "support/test_files.h"

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

// Against the definition, row by row: the label of the next token of the same row, and nothing across rows.
TEST(MakeStream, IsItsDefinitionForAnyRows) {
  std::mt19937 random(7);
  const auto below = [&](uint32_t n) { return static_cast<int32_t>(random() % n); };
  std::vector<std::vector<int32_t>> ids(40), labels(40);
  std::vector<RowView> rows;
  for (size_t r = 0; r < ids.size(); ++r) {
    for (int32_t i = below(30); i >= 0; --i) {
      ids[r].push_back(below(1000));
      labels[r].push_back(below(3) == 0 ? ids[r].back() : static_cast<int32_t>(ignore_index));
    }
    rows.push_back({ids[r], labels[r], r * 1000});
  }
  const Stream s = make_stream(rows);
  std::vector<int64_t> trained;
  int64_t at = 0, longest = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    EXPECT_EQ(s.segment_offsets[r], at);
    EXPECT_EQ(s.segments[static_cast<int64_t>(r)].item<int64_t>(), at);
    EXPECT_EQ(s.segment_keys[r], r * 1000);
    for (size_t i = 0; i < ids[r].size(); ++i, ++at) {
      const int64_t target = i + 1 < ids[r].size() ? labels[r][i + 1] : ignore_index;
      EXPECT_EQ(s.ids[at].item<int64_t>(), ids[r][i]);
      EXPECT_EQ(s.positions[at].item<int64_t>(), static_cast<int64_t>(i));
      EXPECT_EQ(s.targets[at].item<int64_t>(), target);
      if (target != ignore_index) trained.push_back(at);
    }
    longest = std::max(longest, static_cast<int64_t>(ids[r].size()));
  }
  EXPECT_EQ(s.num_tokens(), at);
  EXPECT_EQ(s.num_segments(), 40);
  EXPECT_EQ(s.max_segment, longest);
  EXPECT_EQ(s.num_trained, static_cast<int64_t>(trained.size()));
  EXPECT_GT(s.num_trained, 0);
  EXPECT_TRUE(at::equal(s.trained, at::tensor(trained, at::kLong)));
}

TEST(MakeStream, RowsOfOneTokenTrainNothing) {
  const std::vector<int32_t> one{5};
  const RowView rows[] = {{one, one, 1}, {one, one, 2}};
  const Stream s = make_stream(rows);
  EXPECT_EQ(s.num_trained, 0);
  EXPECT_EQ(s.trained.sizes(), at::IntArrayRef({0}));
  EXPECT_EQ(s.num_segments(), 2);
  EXPECT_TRUE(at::equal(s.positions, at::zeros({2}, at::kLong)));
}

TEST(MakeStream, OfNoRowsIsEmpty) {
  const Stream s = make_stream({});
  EXPECT_EQ(s.num_tokens(), 0);
  EXPECT_EQ(s.num_segments(), 0);
  EXPECT_EQ(s.ids.numel(), 0);
  EXPECT_TRUE(at::equal(s.segments, at::zeros({1}, at::kInt)));
  EXPECT_EQ(Stream().num_tokens(), 0) << "one that was never made";
}

TEST(MakeStream, RefusesRowsThatDisagree) {
  const std::vector<int32_t> ids{1, 2}, labels{1}, none;
  const RowView unequal[] = {{ids, ids, 0}, {ids, labels, 0}};
  EXPECT_THAT(testing::message_of<StateError>([&] { make_stream(unequal); }),
              ::testing::HasSubstr("2 ids and 1 labels"));
  const RowView empty[] = {{none, none, 0}};
  EXPECT_THROW(make_stream(empty), StateError);
}

}  // namespace
}  // namespace duoka
