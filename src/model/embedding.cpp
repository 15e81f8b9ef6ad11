// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/embedding.h"

#include <string>

#include "duoka/core/error.h"

namespace duoka::model {

Embedding::Embedding(Parameter weight) : weight_(std::move(weight)), axis_(solo_tensor_axis()) {}

Embedding::Embedding(const ParameterSource& source, const std::string& name, int64_t vocab_size,
                     int64_t hidden_size, std::shared_ptr<const TensorAxis> axis)
    : weight_(source({name, {vocab_size, hidden_size}, axis->slice(0, vocab_size)})),
      axis_(std::move(axis)) {}

// On CUDA this would wait for the device; the kernel asserts there.
void Embedding::check(const at::Tensor& ids) const {
  if (!ids.is_cpu() || ids.numel() == 0) return;
  const auto [low, high] = ids.aminmax();
  if (low.item<int64_t>() >= 0 && high.item<int64_t>() < weight_.global_shape[0]) return;
  throw StateError("token ids from " + std::to_string(low.item<int64_t>()) + " to " +
                   std::to_string(high.item<int64_t>()) + " for a vocabulary of " +
                   std::to_string(weight_.global_shape[0]) + "; the tokenizer does not fit the model");
}

Embedding::Local Embedding::local(const at::Tensor& ids) const {
  at::Tensor own = ids - weight_.offset[0];
  const at::Tensor is_elsewhere = own.lt(0).logical_or_(own.ge(weight_.value.size(0)));
  return {own.masked_fill_(is_elsewhere, 0), is_elsewhere.unsqueeze(1)};
}

at::Tensor Embedding::rows(const at::Tensor& ids) const {
  require_solo(*axis_, "generation");
  check(ids);
  return weight_.value.index_select(0, ids);
}

at::Tensor Embedding::forward(const at::Tensor&, const Stream& stream, Saved&) {
  if (axis_->is_solo()) return rows(stream.ids);
  check(stream.ids);
  const auto [ids, is_elsewhere] = local(stream.ids);
  return axis_->scatter_sum_tokens(weight_.value.index_select(0, ids).masked_fill_(is_elsewhere, 0), stream);
}

at::Tensor Embedding::backward(const at::Tensor& dy, const Stream& stream, Saved&) {
  if (!weight_.is_trainable) return {};
  if (axis_->is_solo()) {
    weight_.accumulate_rows(stream.ids, dy);
    return {};
  }
  const auto [ids, is_elsewhere] = local(stream.ids);
  weight_.accumulate_rows(ids, axis_->gather_tokens(dy, stream).masked_fill(is_elsewhere, 0));
  return {};
}

}  // namespace duoka::model
