// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/layer.h"
#include "duoka/model/norm.h"
#include "duoka/model/tensor_axis.h"

namespace duoka::model {

struct LogitsPart;

/// The end of the chain: final norm, projection on the vocabulary, cross entropy.
/// x [N, D], weight [V, D], T trained tokens.
///
/// Over a tensor axis x is this rank's part of the tokens and the weight its part of the vocabulary; the
/// logits of a chunk are shared likewise, and the first rank alone reports the loss (the others 0).
///
/// Only trained positions are looked at, some rows at a time: the logits of one chunk are all that ever
/// exists, and they become their own gradient in place. Loss by log-sum-exp in f32 (f64 for double).
/// The loss and the gradients do not depend on the chunk but for the order of sums.
class Head final : public Objective {
 public:
  /// Logits held at once; at least one row. 64 MiB is 341 rows of f32 for a vocabulary of 49152: enough for
  /// the matrix products to run at full speed.
  static constexpr int64_t default_chunk_bytes = int64_t{64} << 20;

  /// Own weight ("lm_head.weight"): of the rows, those of the axis's part.
  Head(RmsNorm norm, Parameter weight, int64_t chunk_bytes = default_chunk_bytes,
       std::shared_ptr<const TensorAxis> axis = solo_tensor_axis());
  /// Tied: uses the embedding's weight, which must outlive the head; both add into one gradient.
  Head(RmsNorm norm, Parameter* tied_weight, int64_t chunk_bytes = default_chunk_bytes,
       std::shared_ptr<const TensorAxis> axis = solo_tensor_axis());

  /// The norm's, then the projection's weight (the embedding's own when tied).
  std::vector<Parameter*> parameters() override;
  double loss_sum(const at::Tensor& x, const Stream& stream) override;
  /// No trained token: loss 0, dx all zeros.
  Share loss_and_gradient(const at::Tensor& x, const Stream& stream, double scale) override;

  /// Logits of some rows of x (indices [n] i64; undefined: all): [n, V] in the dtype of the weight. Solo axis
  /// only (StateError).
  at::Tensor logits(const at::Tensor& x, const at::Tensor& rows = {});

  bool is_tied() const { return !owned_; }
  Parameter& weight() { return *weight_; }
  /// So many rows have logits at a time.
  int64_t rows_per_chunk() const;

 private:
  /// Where this rank has trained tokens, and how many each rank of the axis has.
  struct Trained {
    at::Tensor rows;  // [own count] i64, rows of what is held here
    std::vector<int64_t> counts;
  };
  Trained trained(const Stream& stream) const;

  LogitsPart columns() const;

  RmsNorm norm_;
  std::unique_ptr<Parameter> owned_;  // null when tied
  Parameter* weight_;
  int64_t chunk_bytes_;
  std::shared_ptr<const TensorAxis> axis_;
};

}  // namespace duoka::model
