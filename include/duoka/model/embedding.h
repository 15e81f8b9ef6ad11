// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/layer.h"
#include "duoka/model/parameter_source.h"

namespace duoka::model {

/// The start of the chain: stream.ids [N] -> rows [N, D] of the weight [V, D].
class Embedding final : public Layer {
 public:
  explicit Embedding(Parameter weight);
  /// Takes `name` ("model.embed_tokens.weight") [vocab_size, hidden_size] from `source`.
  Embedding(const ParameterSource& source, const std::string& name, int64_t vocab_size, int64_t hidden_size);

  std::vector<Parameter*> parameters() override { return {&weight_}; }
  /// `x` is ignored and may be undefined. Throws StateError when an id is not in [0, V) (CPU only; CUDA
  /// reports it as a device-side assertion). Keeps nothing.
  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) override;
  /// Adds rows of dy where the weight is trainable (sums in the gradient's dtype). Returns an undefined
  /// tensor.
  at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) override;

  /// Rows of these ids [n] i64: for generation.
  at::Tensor rows(const at::Tensor& ids) const;

  /// For a tied head.
  Parameter& weight() { return weight_; }

 private:
  Parameter weight_;
};

}  // namespace duoka::model
