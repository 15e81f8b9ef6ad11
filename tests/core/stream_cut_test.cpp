// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/stream_cut.h"

#include <random>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/dropout.h"
#include "duoka/core/error.h"
#include "support/test_files.h"

namespace duoka {
namespace {

/// Rows of these lengths with random ids; about every third token is not trained.
Stream stream_of(const std::vector<int64_t>& lengths) {
  std::mt19937 random(3);
  std::vector<std::vector<int32_t>> ids, labels;
  std::vector<RowView> rows;
  for (const int64_t length : lengths) {
    auto& row = ids.emplace_back();
    auto& label = labels.emplace_back();
    for (int64_t i = 0; i < length; ++i) {
      row.push_back(static_cast<int32_t>(random() % 1000));
      label.push_back(random() % 3 == 0 ? static_cast<int32_t>(ignore_index) : row.back());
    }
  }
  for (size_t r = 0; r < lengths.size(); ++r) rows.push_back({ids[r], labels[r], 100 + r});
  return make_stream(rows);
}

/// Place in the whole stream of each of the part's tokens.
at::Tensor places(const Stream& part, const Stream& whole) {
  std::vector<int64_t> found;
  for (size_t s = 0; s + 1 < part.segment_offsets.size(); ++s)
    for (int64_t i = part.segment_offsets[s]; i < part.segment_offsets[s + 1]; ++i)
      found.push_back(whole.segment_offsets[s] + part.positions[i].item<int64_t>());
  return at::tensor(found, at::kLong);
}

const std::vector<int64_t> uneven_lengths{37, 1, 64, 5, 2, 100, 3};

TEST(CutStream, PartsAreTheWholeOnceEach) {
  const Stream whole = stream_of(uneven_lengths);
  for (const int size : {2, 3, 4, 7}) {
    at::Tensor times = at::zeros({whole.num_tokens()}, at::kLong);
    int64_t num_trained = 0;
    for (int rank = 0; rank < size; ++rank) {
      const Stream part = cut_stream(whole, rank, size);
      const at::Tensor at = places(part, whole);
      times.index_add_(0, at, at::ones_like(at));
      num_trained += part.num_trained;
      EXPECT_TRUE(at::equal(part.ids, whole.ids.index_select(0, at)));
      EXPECT_TRUE(at::equal(part.targets, whole.targets.index_select(0, at)));
      EXPECT_TRUE(at::equal(part.targets.index_select(0, part.trained),
                            part.targets.masked_select(part.targets != ignore_index)));
      EXPECT_EQ(part.trained.size(0), part.num_trained);
      EXPECT_EQ(part.segment_keys, whole.segment_keys);
      EXPECT_EQ(part.row_lengths, uneven_lengths);
      EXPECT_EQ(part.max_segment, 100);
      EXPECT_TRUE(at::equal(part.segments.to(at::kLong), at::tensor(part.segment_offsets, at::kLong)));
    }
    EXPECT_TRUE(at::equal(times, at::ones_like(times))) << size << " ranks";
    EXPECT_EQ(num_trained, whole.num_trained);
  }
}

TEST(CutStream, PositionsRiseInASegment) {
  const Stream part = cut_stream(stream_of(uneven_lengths), 1, 3);
  for (size_t s = 0; s + 1 < part.segment_offsets.size(); ++s)
    for (int64_t i = part.segment_offsets[s] + 1; i < part.segment_offsets[s + 1]; ++i)
      EXPECT_LT(part.positions[i - 1].item<int64_t>(), part.positions[i].item<int64_t>());
}

TEST(CutStream, RankHasAChunkFromEachEnd) {
  const RowPart first = row_part(80, 0, 4), last = row_part(80, 3, 4);
  EXPECT_EQ(first.low_begin, 0);
  EXPECT_EQ(first.high_begin, 70);
  EXPECT_EQ(last.low_begin, 30);
  EXPECT_EQ(last.high_begin, 40);
  EXPECT_EQ(first.length(), 20);
  EXPECT_EQ(last.length(), 20);
}

TEST(CutStream, DropsTheSameUnits) {
  const Stream whole = stream_of(uneven_lengths);
  const Dropout dropout(0.4, 17);
  const at::Tensor x = at::ones({whole.num_tokens(), 24}, at::kDouble), dropped = dropout.apply(x, whole);
  for (int rank = 0; rank < 3; ++rank) {
    const Stream part = cut_stream(whole, rank, 3);
    const at::Tensor at = places(part, whole);
    EXPECT_TRUE(at::equal(dropout.apply(x.index_select(0, at), part), dropped.index_select(0, at)));
    EXPECT_TRUE(at::equal(dropout.kept(part, 24), dropout.kept(whole, 24).index_select(0, at)));
  }
}

TEST(CutStream, PartMayHaveNoTokens) {
  const Stream whole = stream_of({1, 1});
  int64_t num_tokens = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const Stream part = cut_stream(whole, rank, 3);
    num_tokens += part.num_tokens();
    EXPECT_EQ(part.num_segments(), 2);
    EXPECT_EQ(part.ids.sizes(), at::IntArrayRef({part.num_tokens()}));
    EXPECT_EQ(part.trained.sizes(), at::IntArrayRef({0}));
  }
  EXPECT_EQ(num_tokens, 2);
}

TEST(CutStream, OfOneRankIsTheStream) {
  const Stream whole = stream_of({5, 3}), part = cut_stream(whole, 0, 1);
  EXPECT_TRUE(at::equal(part.ids, whole.ids));
  EXPECT_TRUE(part.row_lengths.empty());
  EXPECT_EQ(part.row_length(1), 3);
}

TEST(CutStream, RefusesAPartAndARankThatIsNone) {
  const Stream whole = stream_of({5, 3});
  EXPECT_THAT(testing::message_of<StateError>([&] { cut_stream(whole, 2, 2); }),
              ::testing::HasSubstr("rank 2 of 2"));
  EXPECT_THAT(testing::message_of<StateError>([&] { cut_stream(cut_stream(whole, 0, 2), 0, 2); }),
              ::testing::HasSubstr("a part already"));
}

}  // namespace
}  // namespace duoka
