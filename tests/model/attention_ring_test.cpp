// SPDX-License-Identifier: Apache-2.0
// Which keys a rank's queries see; the arithmetic is tested on ranks, in tests/parallel.
#include "model/attention_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/model/config.h"
#include "support/test_files.h"

namespace duoka::model {
namespace {

/// Pairs of a query and a key it sees.
int64_t num_pairs(const std::vector<AttentionPiece>& pieces) {
  int64_t total = 0;
  for (const AttentionPiece& piece : pieces)
    total += piece.is_causal ? piece.q_length * (piece.q_length + 1) / 2 : piece.q_length * piece.k_length;
  return total;
}

TEST(RingPieces, AreAllPairsOfTheWholeOnce) {
  for (const int size : {1, 2, 3, 4, 8})
    for (const auto& lengths :
         std::vector<std::vector<int64_t>>{{64}, {1}, {37, 1, 100, 5, 2}, {7, 15, 16, 17}}) {
      int64_t wanted = 0, found = 0;
      for (const int64_t length : lengths) wanted += length * (length + 1) / 2;
      for (int rank = 0; rank < size; ++rank)
        for (int source = 0; source < size; ++source)
          found += num_pairs(ring_pieces(lengths, rank, source, size));
      EXPECT_EQ(found, wanted) << size << " ranks";
    }
}

// Ranks wait for each other in every step, so each step has to be balanced, not only their sum.
TEST(RingPieces, AreAsManyPairsOnEveryRankInEveryStep) {
  for (const int size : {2, 3, 4, 8})
    for (int step = 0; step < size; ++step) {
      int64_t least = INT64_MAX, most = 0;
      for (int rank = 0; rank < size; ++rank) {
        const int64_t pairs = num_pairs(ring_pieces({8191}, rank, (rank - step + size) % size, size));
        least = std::min(least, pairs);
        most = std::max(most, pairs);
      }
      EXPECT_LT(static_cast<double>(most), 1.01 * static_cast<double>(least))
          << size << " ranks, step " << step;
    }
}

TEST(ContextParallel, RefusesAWindowShorterThanTheRows) {
  ModelConfig config;
  config.num_layers = 3;
  config.windows = {0, 512, 0};
  EXPECT_NO_THROW(check_context_parallel(config, 1, 1000));
  EXPECT_NO_THROW(check_context_parallel(config, 2, 512));
  EXPECT_THAT(testing::message_of<ConfigError>([&] { check_context_parallel(config, 2, 1000); }),
              ::testing::HasSubstr("context_parallel_size = 2: layer 1 has a sliding window of 512"));
}

TEST(ContextParallel, SoloAxisHasNobodyToTalkTo) {
  EXPECT_TRUE(solo_context_axis()->is_solo());
  EXPECT_THROW((void)solo_context_axis()->start_exchange({}, {}), StateError);
}

}  // namespace
}  // namespace duoka::model
