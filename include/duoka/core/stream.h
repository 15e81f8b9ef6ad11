// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace duoka {

/// Marks a position that is not trained, as in Hugging Face's labels.
inline constexpr int64_t ignore_index = -100;

/// A micro-batch: rows laid end to end, nothing padded. N tokens in S segments (one a row).
///
/// Tensors lie on the device of the layers. Attention never crosses a segment, positions restart at 0 in
/// each one. `targets` is already shifted: targets[i] is the token that position i has to predict, so
/// nothing downstream shifts again.
///
/// Under context parallelism a stream is one rank's part of each row (stream_cut.h): a segment holds the
/// row's tokens that lie here, ascending, none where the row is short; all else is as in the whole stream.
struct Stream {
  at::Tensor ids;                        ///< [N] i64.
  at::Tensor targets;                    ///< [N] i64; ignore_index where nothing is to be predicted.
  at::Tensor positions;                  ///< [N] i64, place in the own row.
  at::Tensor trained;                    ///< [num_trained] i64, ascending: where targets != ignore_index.
  at::Tensor segments;                   ///< [S+1] i32 offsets, as variable-length attention wants them.
  std::vector<int64_t> segment_offsets;  ///< The same on the host.
  /// [S]: identity of each row in the whole run (seed, epoch, row). With the position it keys dropout,
  /// so that a token drops the same units whatever the cards, the packing and the accumulation.
  std::vector<uint64_t> segment_keys;
  int64_t num_trained = 0;  ///< Host copy of trained.numel().
  int64_t max_segment = 0;  ///< Longest row, in tokens: no position reaches it.
  bool is_training = true;  ///< False for evaluation: nothing is dropped.
  /// [S]: tokens of each whole row, where the stream is a part of them; empty where it has rows whole.
  std::vector<int64_t> row_lengths;

  int64_t num_tokens() const { return segment_offsets.empty() ? 0 : segment_offsets.back(); }
  int64_t num_segments() const { return static_cast<int64_t>(segment_offsets.size()) - 1; }
  /// Tokens of the whole row that segment `s` is of.
  int64_t row_length(size_t s) const {
    return row_lengths.empty() ? segment_offsets[s + 1] - segment_offsets[s] : row_lengths[s];
  }
};

/// One row of a stream, before it is laid out. `labels` are Hugging Face's: labels[i] is ids[i] where the
/// token is trained, else ignore_index. Both have the same length, at least 1.
struct RowView {
  std::span<const int32_t> ids;
  std::span<const int32_t> labels;
  uint64_t key = 0;
};

/// Lays `rows` end to end into one stream on `device`. The one place where labels become targets: the
/// last position of a row predicts nothing, and a row's first label is never a target.
/// Throws StateError when a row is empty or its labels differ in length.
Stream make_stream(std::span<const RowView> rows, at::Device device = at::kCPU);

}  // namespace duoka
