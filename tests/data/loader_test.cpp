// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/loader.h"

#include <algorithm>
#include <map>
#include <set>

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tiny_tokenizer.h"
#include "duoka/core/error.h"

namespace duoka::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LoaderTest : public ::testing::Test {
 protected:
  LoaderOptions options(int64_t rows_per_stream, int64_t streams_per_update, int64_t rank = 0,
                        int64_t ranks = 1) {
    LoaderOptions options;
    options.pack.rows_per_stream = rows_per_stream;
    options.pack.streams_per_update = streams_per_update;
    options.pack.seed = 3;
    options.rank = rank;
    options.num_ranks = ranks;
    return options;
  }
  TinyData data_;
  RowSet rows_{data_.open({"rows7.jsonl", "A05_sharegpt_turns.jsonl"}, TinyData::rules())};  // 13 rows.
};

void expect_same(const Stream& a, const Stream& b) {
  EXPECT_TRUE(at::equal(a.ids, b.ids));
  EXPECT_TRUE(at::equal(a.targets, b.targets));
  EXPECT_EQ(a.segment_offsets, b.segment_offsets);
  EXPECT_EQ(a.segment_keys, b.segment_keys);
}

TEST_F(LoaderTest, StreamsHoldTheRowsOfThePlan) {
  Loader loader(rows_, options(2, 2));
  ASSERT_EQ(loader.num_updates(0), 4);
  for (int64_t u = 0; u < 4; ++u) {
    const Update update = loader.get(0, u);
    const auto plan = loader.plan(0);
    int64_t trained = 0;
    size_t at = 0;
    for (size_t s = 0; s < update.streams.size(); ++s) {
      const Stream& stream = update.streams[s];
      trained += stream.num_trained;
      const auto rows = plan->update(u)[s];
      ASSERT_EQ(stream.num_segments(), static_cast<int64_t>(rows.size()));
      for (size_t i = 0; i < rows.size(); ++i, ++at) {
        EXPECT_EQ(update.row_ids[at], rows[i]);
        EXPECT_EQ(stream.segment_keys[i], row_key(3, 0, rows[i]));
        EXPECT_EQ(stream.segment_offsets[i + 1] - stream.segment_offsets[i],
                  rows_.length(rows[i]).num_tokens);
      }
    }
    EXPECT_EQ(update.num_trained, trained);
  }
}

TEST_F(LoaderTest, PositionIsEpochAndUpdate) {
  Loader through(rows_, options(1, 4));
  std::map<std::pair<int64_t, int64_t>, Update> seen;
  for (int64_t epoch : {0, 1})
    for (int64_t u = 0; u < through.num_updates(epoch); ++u) seen[{epoch, u}] = through.get(epoch, u);
  Loader resumed(rows_, options(1, 4));
  for (const auto& [epoch, u] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {0, 3}, {1, 0}, {1, 1}, {0, 0}}) {
    const Update update = resumed.get(epoch, u);
    EXPECT_EQ(update.row_ids, (seen[{epoch, u}].row_ids));
    for (size_t s = 0; s < update.streams.size(); ++s)
      expect_same(update.streams[s], seen[{epoch, u}].streams[s]);
  }
}

TEST_F(LoaderTest, KeysDifferByEpochAndRow) {
  std::set<uint64_t> keys;
  for (int64_t epoch = 0; epoch < 10; ++epoch)
    for (int64_t row = 0; row < 100; ++row) keys.insert(row_key(1, epoch, row));
  EXPECT_EQ(keys.size(), 1000u);
  EXPECT_NE(row_key(1, 0, 0), row_key(2, 0, 0));
}

class Ranks : public LoaderTest, public ::testing::WithParamInterface<int64_t> {};

// One rank with all the accumulation, and several that share it, see the same streams in each update.
TEST_P(Ranks, SeeTheUpdatesOfOneRank) {
  const int64_t ranks = GetParam();
  Loader one(rows_, options(1, 4));
  std::vector<std::unique_ptr<Loader>> loaders;
  for (int64_t rank = 0; rank < ranks; ++rank)
    loaders.push_back(std::make_unique<Loader>(rows_, options(1, 4, rank, ranks)));
  for (int64_t u = 0; u < one.num_updates(0); ++u) {
    const Update whole = one.get(0, u);
    std::set<int64_t> rows;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const Update share = loaders[static_cast<size_t>(rank)]->get(0, u);
      EXPECT_EQ(share.num_trained, whole.num_trained);
      EXPECT_EQ(share.streams.size(),
                (whole.streams.size() + static_cast<size_t>(ranks) - 1) / static_cast<size_t>(ranks));
      for (size_t s = 0; s < share.streams.size(); ++s) {
        const size_t global = s * static_cast<size_t>(ranks) + static_cast<size_t>(rank);
        if (global < whole.streams.size())
          expect_same(share.streams[s], whole.streams[global]);
        else
          EXPECT_EQ(share.streams[s].num_tokens(), 0);
      }
      for (int64_t row : share.row_ids) EXPECT_TRUE(rows.insert(row).second);
    }
    EXPECT_EQ(rows, std::set<int64_t>(whole.row_ids.begin(), whole.row_ids.end()));
  }
}
INSTANTIATE_TEST_SUITE_P(Numbers, Ranks, ::testing::Values(1, 2, 3, 4));

// Case D01: the rank without a row at the uneven end gets a stream without tokens, not a repeated row.
TEST_F(LoaderTest, CaseD01EmptyStreamAtTheUnevenEnd) {
  const RowSet five(data_.open({"rows7.jsonl"}, TinyData::rules()), {0, 1, 2, 3, 4});
  LoaderOptions second = options(1, 2, 1, 2);
  second.pack.is_shuffled = false;
  Loader loader(five, second);
  ASSERT_EQ(loader.num_updates(0), 3);
  EXPECT_THAT(loader.get(0, 0).row_ids, ElementsAre(::testing::AnyOf(0, 1)));
  EXPECT_THAT(loader.get(0, 1).row_ids, ElementsAre(::testing::AnyOf(2, 3)));
  const Update last = loader.get(0, 2);
  EXPECT_THAT(last.row_ids, IsEmpty());
  ASSERT_EQ(last.streams.size(), 1u);
  EXPECT_EQ(last.streams[0].num_tokens(), 0);
  EXPECT_EQ(last.num_trained, 3);  // Row 5, on the other rank.
}

TEST_F(LoaderTest, PackedStreamsKeepToTheirRoom) {
  LoaderOptions packed = options(1, 2);
  packed.pack.is_packing = true;
  packed.pack.tokens_per_stream = 64;
  Loader loader(rows_, packed);
  std::multiset<int64_t> rows;
  for (int64_t u = 0; u < loader.num_updates(0); ++u) {
    const Update update = loader.get(0, u);
    for (const Stream& stream : update.streams) EXPECT_LE(stream.num_tokens(), 64);
    rows.insert(update.row_ids.begin(), update.row_ids.end());
  }
  EXPECT_EQ(rows.size(), 13u);
  EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), 13u);
}

TEST_F(LoaderTest, WrongPositionsAndOptionsAreErrors) {
  Loader loader(rows_, options(1, 4));
  EXPECT_THROW(loader.get(0, 4), StateError);
  EXPECT_THROW(loader.get(0, -1), StateError);
  EXPECT_THROW(loader.get(-1, 0), StateError);
  EXPECT_EQ(loader.get(0, 3).streams.size(), 1u);  // Still works.
  EXPECT_THROW(Loader(rows_, options(1, 4, 2, 2)), StateError);
  EXPECT_THROW(Loader(rows_, options(0, 4)), StateError);
}

TEST_F(LoaderTest, EndsWhileTheThreadIsAtWork) {
  for (int i = 0; i < 20; ++i) Loader(rows_, options(4, 2)).get(0, 0);
}

}  // namespace
}  // namespace duoka::data
