// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/layer.h"
#include "duoka/model/norm.h"

namespace duoka::model {

/// The end of the chain: final norm, projection on the vocabulary, cross entropy.
/// x [N, D], weight [V, D], T trained tokens.
///
/// Only trained positions are looked at, some rows at a time: the logits of one chunk are all that ever
/// exists, and they become their own gradient in place. Loss by log-sum-exp in f32 (f64 for double).
/// The loss and the gradients do not depend on the chunk but for the order of sums.
class Head final : public Objective {
 public:
  /// Logits held at once; at least one row. 64 MiB is 341 rows of f32 for a vocabulary of 49152: enough for
  /// the matrix products to run at full speed.
  static constexpr int64_t default_chunk_bytes = int64_t{64} << 20;

  /// Own weight ("lm_head.weight").
  Head(RmsNorm norm, Parameter weight, int64_t chunk_bytes = default_chunk_bytes);
  /// Tied: uses the embedding's weight, which must outlive the head; both add into one gradient.
  Head(RmsNorm norm, Parameter* tied_weight, int64_t chunk_bytes = default_chunk_bytes);

  /// The norm's, then the projection's weight (the embedding's own when tied).
  std::vector<Parameter*> parameters() override;
  double loss_sum(const at::Tensor& x, const Stream& stream) override;
  /// No trained token: loss 0, dx all zeros.
  Share loss_and_gradient(const at::Tensor& x, const Stream& stream, double scale) override;

  /// Logits of some rows of x (indices [n] i64; undefined: all): [n, V] in the dtype of the weight.
  at::Tensor logits(const at::Tensor& x, const at::Tensor& rows = {});

  bool is_tied() const { return !owned_; }
  Parameter& weight() { return *weight_; }

 private:
  int64_t rows_per_chunk() const;

  RmsNorm norm_;
  std::unique_ptr<Parameter> owned_;  // null when tied
  Parameter* weight_;
  int64_t chunk_bytes_;
};

}  // namespace duoka::model
