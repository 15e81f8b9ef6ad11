// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/layer.h"
#include "duoka/model/parameter_source.h"
#include "duoka/model/tensor_axis.h"

namespace duoka::model {

/// The start of the chain: stream.ids [N] -> rows [N, D] of the weight [V, D]. Over a tensor axis each rank
/// has its part of the vocabulary, and gets the rows of its part of the tokens.
class Embedding final : public Layer {
 public:
  explicit Embedding(Parameter weight);
  /// Takes `name` ("model.embed_tokens.weight") [vocab_size, hidden_size], or this rank's rows of it, from
  /// `source`.
  Embedding(const ParameterSource& source, const std::string& name, int64_t vocab_size, int64_t hidden_size,
            std::shared_ptr<const TensorAxis> axis = solo_tensor_axis());

  std::vector<Parameter*> parameters() override { return {&weight_}; }
  /// `x` is ignored and may be undefined. Throws StateError when an id is not in [0, V) (CPU only; CUDA
  /// reports it as a device-side assertion). Keeps nothing.
  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) override;
  /// Adds rows of dy where the weight is trainable (sums in the gradient's dtype). Returns an undefined
  /// tensor.
  at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) override;

  /// Rows of these ids [n] i64: for generation. Solo axis only (StateError).
  at::Tensor rows(const at::Tensor& ids) const;

  /// For a tied head.
  Parameter& weight() { return weight_; }

 private:
  void check(const at::Tensor& ids) const;
  /// Ids [n] as rows of the slice held here, and which of them are not in it; those stand as row 0.
  struct Local {
    at::Tensor ids, is_elsewhere;
  };
  Local local(const at::Tensor& ids) const;

  Parameter weight_;
  std::shared_ptr<const TensorAxis> axis_;
};

}  // namespace duoka::model
