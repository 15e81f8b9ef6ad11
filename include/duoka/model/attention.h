// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/layer.h"
#include "duoka/model/context_axis.h"
#include "duoka/model/linear.h"
#include "duoka/model/norm.h"
#include "duoka/model/parameter_source.h"
#include "duoka/model/rope.h"
#include "duoka/model/tensor_axis.h"

namespace duoka::model {

struct AttentionConfig {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;    ///< Divides num_heads.
  int64_t head_dim = 0;        ///< Need not be hidden_size / num_heads.
  int64_t sliding_window = 0;  ///< A token sees itself and the window - 1 before it; 0: all before it.
  bool has_qkv_bias = false;
  bool has_output_bias = false;
  bool has_qk_norm = false;  ///< RMS norm of each head of q and k before the rotation (Qwen3).
  double norm_eps = 1e-6;    ///< Of that norm.
};

/// Keys (rotated) and values of one sequence, for generation. Rows [0, length) are filled.
struct KvCache {
  at::Tensor k, v;  ///< [capacity, num_kv_heads, head_dim]; grown by doubling, undefined when empty.
  int64_t length = 0;
};

/// Causal self-attention of a decoder, each segment on its own, with grouped heads and rotary positions.
/// x [N, D] -> [N, D]. Names: "<prefix>.q_proj.weight", …, "<prefix>.q_norm.weight".
///
/// CPU: flash attention a segment (f32, f64, bf16, f16). CUDA: variable-length flash attention for half
/// types, memory-efficient attention for f32. Nothing of size N x N is made, but on CPU for a sliding
/// window shorter than the segment (a mask of length^2 numbers).
/// Over a tensor axis each rank has its part of the heads; x and the result are its part of the tokens. Over
/// a context axis the stream is this rank's part of each row (cut_stream()), and every call is collective.
/// Source: Dao, "FlashAttention-2", arXiv:2307.08691; Ainslie et al., "GQA", arXiv:2305.13245.
class Attention final : public Layer {
 public:
  /// `config`: the whole's. Throws FormatError when the numbers of heads do not fit, StateError when the axis
  /// does not divide them (see check_tensor_parallel()).
  Attention(const ParameterSource& source, const std::string& prefix, const AttentionConfig& config,
            std::shared_ptr<const Rope> rope, std::shared_ptr<const TensorAxis> axis = solo_tensor_axis(),
            std::shared_ptr<const ContextAxis> context = solo_context_axis());

  std::vector<Parameter*> parameters() override;
  /// Keeps q, k, v, the output of attention and its log-sum-exp (and x, this rank's tokens alone, where an
  /// input is needed).
  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) override;
  at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) override;

  /// The next n tokens of one sequence, x [n, D], after the cache.length there are: appends their keys
  /// and values to `cache` and attends to all. No dropout, nothing kept. Solo axes only (StateError).
  at::Tensor forward_cached(const at::Tensor& x, KvCache& cache);

  /// q_proj, k_proj, v_proj, o_proj.
  std::vector<Linear*> linears();

 private:
  struct Heads {
    at::Tensor q, k, v;  // [N, H, d], [N, Hkv, d] twice
  };
  Heads project(const at::Tensor& x, const Rope::Angles& angles, const Stream& stream, Saved& saved);

  bool needs_input() const;  // of q, k or v

  AttentionConfig config_;  // with the heads held here
  std::shared_ptr<const Rope> rope_;
  std::shared_ptr<const TensorAxis> axis_;
  std::shared_ptr<const ContextAxis> context_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<RmsNorm> q_norm_, k_norm_;
};

}  // namespace duoka::model
