// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/layer.h"
#include "duoka/model/linear.h"
#include "duoka/model/parameter_source.h"
#include "duoka/model/tensor_axis.h"

namespace duoka::model {

enum class Activation { silu, gelu_tanh };

/// The activation a config's `hidden_act` names: "silu" (or "swish"), "gelu_pytorch_tanh" (or "gelu_new").
/// Throws FormatError naming the ones there are.
Activation activation(const std::string& hidden_act);

struct MlpConfig {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  Activation activation = Activation::silu;
  bool has_bias = false;
};

/// Gated feed-forward: down(act(gate(x)) * up(x)). x [N, D] -> [N, D], F = intermediate size.
/// Names: "<prefix>.gate_proj.weight", "<prefix>.up_proj.weight", "<prefix>.down_proj.weight".
/// Over a tensor axis each rank has its part of F; x and the result are its part of the tokens.
/// Source: Shazeer, "GLU variants improve transformer", arXiv:2002.05202, eq. 6.
class Mlp final : public Layer {
 public:
  /// `config`: the whole's.
  Mlp(const ParameterSource& source, const std::string& prefix, const MlpConfig& config,
      std::shared_ptr<const TensorAxis> axis = solo_tensor_axis());

  std::vector<Parameter*> parameters() override;
  /// Keeps gate and up, [N, F] each; the product is made again in backward where down_proj needs it.
  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) override;
  at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) override;

  /// The function alone, for generation: no dropout, nothing kept. Solo axis only (StateError).
  at::Tensor apply(const at::Tensor& x);

  /// gate_proj, up_proj, down_proj.
  std::vector<Linear*> linears() { return {&gate_proj_, &up_proj_, &down_proj_}; }

 private:
  Activation activation_;
  std::shared_ptr<const TensorAxis> axis_;
  Linear gate_proj_, up_proj_, down_proj_;
};

}  // namespace duoka::model
