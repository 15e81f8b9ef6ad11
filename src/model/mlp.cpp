// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/mlp.h"

#include <ATen/ops/empty_like.h>

#include "duoka/core/error.h"
#include "model/card.h"
#include "model/row_loop.h"
#include "model/rows.h"

namespace duoka::model {

namespace {

at::Tensor gated(Activation kind, const at::Tensor& gate, const at::Tensor& up) {
  if (!gate.is_cpu()) return card::gated(kind, gate, up);
  at::Tensor y = at::empty_like(gate);
  with_type_of(gate, [&]<class T>() {
    const T* const gates = gate.const_data_ptr<T>();
    const T* const ups = up.const_data_ptr<T>();
    T* const to = y.mutable_data_ptr<T>();
    for_rows(gate.numel(), 1, [&](int64_t begin, int64_t end) {
      rows::gated(kind, gates + begin, ups + begin, to + begin, end - begin);
    });
  });
  return y;
}

/// Puts the gradients of gate and up in their place: nothing of size [N, F] is allocated.
void gated_backward(Activation kind, const at::Tensor& dy, at::Tensor& gate, at::Tensor& up) {
  if (!gate.is_cpu()) return card::gated_backward(kind, dy, gate, up);
  with_type_of(gate, [&]<class T>() {
    const T* const from = dy.const_data_ptr<T>();
    T* const gates = gate.mutable_data_ptr<T>();
    T* const ups = up.mutable_data_ptr<T>();
    for_rows(gate.numel(), 1, [&](int64_t begin, int64_t end) {
      rows::gated_backward(kind, from + begin, gates + begin, ups + begin, end - begin);
    });
  });
}

}  // namespace

Activation activation(const std::string& hidden_act) {
  if (hidden_act == "silu" || hidden_act == "swish") return Activation::silu;
  if (hidden_act == "gelu_pytorch_tanh" || hidden_act == "gelu_new") return Activation::gelu_tanh;
  throw FormatError("hidden_act = \"" + hidden_act + "\" is not known; known are silu and gelu_pytorch_tanh");
}

Mlp::Mlp(const ParameterSource& source, const std::string& prefix, const MlpConfig& config,
         std::shared_ptr<const TensorAxis> axis)
    : activation_(config.activation),
      axis_(std::move(axis)),
      gate_proj_(source, prefix + ".gate_proj", config.intermediate_size, config.hidden_size, config.has_bias,
                 Split::outputs, *axis_),
      up_proj_(source, prefix + ".up_proj", config.intermediate_size, config.hidden_size, config.has_bias,
               Split::outputs, *axis_),
      down_proj_(source, prefix + ".down_proj", config.hidden_size, config.intermediate_size, config.has_bias,
                 Split::inputs, *axis_) {}

std::vector<Parameter*> Mlp::parameters() {
  std::vector<Parameter*> all;
  for (Linear* linear : linears())
    for (Parameter* parameter : linear->parameters()) all.push_back(parameter);
  return all;
}

// gate and up go onto the stack last, so that backward has them before down_proj takes what its adapter left.
at::Tensor Mlp::forward(const at::Tensor& x, const Stream& stream, Saved& saved) {
  const at::Tensor all = axis_->gather_tokens(x, stream);
  at::Tensor gate = gate_proj_.project(all, stream, saved);
  at::Tensor up = up_proj_.project(all, stream, saved);
  if (gate_proj_.needs_input() || up_proj_.needs_input()) saved.push(x);
  const at::Tensor y = down_proj_.project(gated(activation_, gate, up), stream, saved);
  saved.push(std::move(gate));
  saved.push(std::move(up));
  return axis_->scatter_sum_tokens(y, stream);
}

at::Tensor Mlp::apply(const at::Tensor& x) {
  require_solo(*axis_, "generation");
  return down_proj_.apply(gated(activation_, gate_proj_.apply(x), up_proj_.apply(x)));
}

at::Tensor Mlp::backward(const at::Tensor& dy, const Stream& stream, Saved& saved) {
  at::Tensor up = saved.pop(), gate = saved.pop(), dproduct, dx;
  down_proj_.backward_into(axis_->gather_tokens(dy, stream),
                           down_proj_.needs_input() ? gated(activation_, gate, up) : at::Tensor(), stream,
                           saved, dproduct);
  gated_backward(activation_, dproduct, gate, up);
  const bool needs_input = gate_proj_.needs_input() || up_proj_.needs_input();
  const at::Tensor x = needs_input ? axis_->gather_tokens(saved.pop(), stream) : at::Tensor();
  up_proj_.backward_into(up, x, stream, saved, dx);
  gate_proj_.backward_into(gate, x, stream, saved, dx);
  return axis_->scatter_sum_tokens(dx, stream);
}

}  // namespace duoka::model
