// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/embedding.h"

#include <string>

#include "duoka/core/error.h"

namespace duoka::model {

Embedding::Embedding(Parameter weight) : weight_(std::move(weight)) {}

Embedding::Embedding(const ParameterSource& source, const std::string& name, int64_t vocab_size,
                     int64_t hidden_size)
    : weight_(source(name, {vocab_size, hidden_size})) {}

at::Tensor Embedding::rows(const at::Tensor& ids) const {
  // On CUDA a check would wait for the device; the kernel asserts there.
  if (ids.is_cpu() && ids.numel() > 0) {
    const auto [low, high] = ids.aminmax();
    if (low.item<int64_t>() < 0 || high.item<int64_t>() >= weight_.value.size(0))
      throw StateError("token ids from " + std::to_string(low.item<int64_t>()) + " to " +
                       std::to_string(high.item<int64_t>()) + " for a vocabulary of " +
                       std::to_string(weight_.value.size(0)) + "; the tokenizer does not fit the model");
  }
  return weight_.value.index_select(0, ids);
}

at::Tensor Embedding::forward(const at::Tensor&, const Stream& stream, Saved&) { return rows(stream.ids); }

at::Tensor Embedding::backward(const at::Tensor& dy, const Stream& stream, Saved&) {
  if (weight_.is_trainable) weight_.accumulate_rows(stream.ids, dy);
  return {};
}

}  // namespace duoka::model
