// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/layer.h"
#include "duoka/model/attention.h"
#include "duoka/model/mlp.h"
#include "duoka/model/norm.h"

namespace duoka::model {

struct BlockConfig {
  AttentionConfig attention;
  MlpConfig mlp;
  double norm_eps = 1e-6;
  bool norm_plus_one = false;
};

/// One decoder block: h = x + attention(norm(x)), y = h + mlp(norm(h)). x [N, D] -> [N, D]; over a tensor
/// axis N is this rank's part of the tokens. `prefix`: "model.layers.0"; inside, Hugging Face's names
/// (self_attn, mlp, input_layernorm, post_attention_layernorm).
class Block final : public Layer {
 public:
  Block(const ParameterSource& source, const std::string& prefix, const BlockConfig& config,
        std::shared_ptr<const Rope> rope, std::shared_ptr<const TensorAxis> axis = solo_tensor_axis(),
        std::shared_ptr<const ContextAxis> context = solo_context_axis());

  std::vector<Parameter*> parameters() override;
  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) override;
  at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) override;
  /// See Attention::forward_cached().
  at::Tensor forward_cached(const at::Tensor& x, KvCache& cache);

  /// The seven matrices an adapter can be attached to.
  std::vector<Linear*> linears();

 private:
  RmsNorm input_norm_;
  Attention attention_;
  RmsNorm mlp_norm_;
  Mlp mlp_;
};

}  // namespace duoka::model
