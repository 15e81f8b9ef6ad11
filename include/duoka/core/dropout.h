// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "duoka/core/stream.h"

namespace duoka {

/// Dropout without state: whether a unit is dropped is a function of (site, row of the run, position in
/// the row, column). So the same token loses the same units on any card, in any packing, with any
/// accumulation, and again when a layer is recomputed or when backward needs the mask.
///
/// The bits are Philox-4x32-10 (core/philox.h) with key `site_key` and counter (row key, position, lane);
/// see dropout.cpp for the layout of columns. A unit is dropped when its 32-bit word is below p * 2^32.
class Dropout {
 public:
  /// p in [0, 1). `site_key`: random_key(seed, name of the place). Throws ConfigError for other p.
  /// `first_column`: what it is used on are the columns from there on of a wider tensor (tensor parallelism).
  Dropout(double p, uint64_t site_key, int64_t first_column = 0);

  double probability() const { return p_; }
  uint64_t site_key() const { return site_key_; }
  int64_t first_column() const { return first_column_; }
  /// False when nothing would change: p is 0, or the stream is not for training.
  bool is_active(const Stream& stream) const { return p_ > 0 && stream.is_training; }

  /// x [N, D], contiguous, any floating dtype -> x * mask / (1 - p), new tensor. One pass, a fused
  /// loop or a kernel of ours, with the same bits. Returns `x` itself when not active.
  at::Tensor apply(const at::Tensor& x, const Stream& stream) const;
  /// The same in place. The backward of apply() is apply_() on the gradient.
  void apply_(at::Tensor& x, const Stream& stream) const;

  /// The mask alone, by tensor operations on the stream's device: [N, num_columns] bool, true where kept.
  at::Tensor kept(const Stream& stream, int64_t num_columns) const;

 private:
  double p_;
  uint64_t site_key_;
  int64_t first_column_;
};

}  // namespace duoka
