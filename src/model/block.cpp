// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/block.h"

namespace duoka::model {

namespace {

RmsNorm norm_of(const ParameterSource& source, const std::string& module, const BlockConfig& config) {
  return RmsNorm(source({module + ".weight", {config.mlp.hidden_size}}), config.norm_eps,
                 config.norm_plus_one);
}

}  // namespace

Block::Block(const ParameterSource& source, const std::string& prefix, const BlockConfig& config,
             std::shared_ptr<const Rope> rope, std::shared_ptr<const TensorAxis> axis,
             std::shared_ptr<const ContextAxis> context)
    : input_norm_(norm_of(source, prefix + ".input_layernorm", config)),
      attention_(source, prefix + ".self_attn", config.attention, std::move(rope), axis, std::move(context)),
      mlp_norm_(norm_of(source, prefix + ".post_attention_layernorm", config)),
      mlp_(source, prefix + ".mlp", config.mlp, std::move(axis)) {}

std::vector<Parameter*> Block::parameters() {
  std::vector<Parameter*> all;
  for (Layer* layer : {static_cast<Layer*>(&input_norm_), static_cast<Layer*>(&attention_),
                       static_cast<Layer*>(&mlp_norm_), static_cast<Layer*>(&mlp_)})
    for (Parameter* parameter : layer->parameters()) all.push_back(parameter);
  return all;
}

std::vector<Linear*> Block::linears() {
  std::vector<Linear*> all = attention_.linears();
  for (Linear* linear : mlp_.linears()) all.push_back(linear);
  return all;
}

// The branches return fresh tensors, so the residual is added in place.
at::Tensor Block::forward(const at::Tensor& x, const Stream& stream, Saved& saved) {
  at::Tensor h = attention_.forward(input_norm_.forward(x, stream, saved), stream, saved);
  h.add_(x);
  at::Tensor y = mlp_.forward(mlp_norm_.forward(h, stream, saved), stream, saved);
  y.add_(h);
  return y;
}

at::Tensor Block::backward(const at::Tensor& dy, const Stream& stream, Saved& saved) {
  at::Tensor dh = mlp_norm_.backward(mlp_.backward(dy, stream, saved), stream, saved);
  dh.add_(dy);
  at::Tensor dx = input_norm_.backward(attention_.backward(dh, stream, saved), stream, saved);
  dx.add_(dh);
  return dx;
}

at::Tensor Block::forward_cached(const at::Tensor& x, KvCache& cache) {
  at::Tensor h = attention_.forward_cached(input_norm_.apply(x), cache);
  h.add_(x);
  at::Tensor y = mlp_.apply(mlp_norm_.apply(h));
  y.add_(h);
  return y;
}

}  // namespace duoka::model
