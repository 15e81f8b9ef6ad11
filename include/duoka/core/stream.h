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
struct Stream {
  at::Tensor ids;                        ///< [N] i64.
  at::Tensor targets;                    ///< [N] i64; ignore_index where nothing is to be predicted.
  at::Tensor positions;                  ///< [N] i64, place in the own segment.
  at::Tensor trained;                    ///< [num_trained] i64, ascending: where targets != ignore_index.
  at::Tensor segments;                   ///< [S+1] i32 offsets, as variable-length attention wants them.
  std::vector<int64_t> segment_offsets;  ///< The same on the host.
  /// [S]: identity of each row in the whole run (seed, epoch, row). With the position it keys dropout,
  /// so that a token drops the same units whatever the cards, the packing and the accumulation.
  std::vector<uint64_t> segment_keys;
  int64_t num_trained = 0;  ///< Host copy of trained.numel().
  int64_t max_segment = 0;  ///< Longest segment, in tokens.
  bool is_training = true;  ///< False for evaluation: nothing is dropped.

  int64_t num_tokens() const { return segment_offsets.empty() ? 0 : segment_offsets.back(); }
  int64_t num_segments() const { return static_cast<int64_t>(segment_offsets.size()) - 1; }
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
