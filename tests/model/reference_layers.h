// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "duoka/model/attention.h"
#include "duoka/model/block.h"
#include "model/layer_fixture.h"

/// The layers as a textbook writes them, by plain operators that autograd follows. Nothing is shared with the
/// code under test but the inverse frequencies.
namespace duoka::model::test {

inline at::Tensor linear_reference(const at::Tensor& x, const Leaves& w, const std::string& module) {
  auto y = x.matmul(w.at(module + ".weight").t());
  return w.count(module + ".bias") ? y + w.at(module + ".bias") : y;
}

inline at::Tensor norm_reference(const at::Tensor& x, const at::Tensor& factor, double eps) {
  return x / (x.pow(2).mean(-1, true) + eps).sqrt() * factor;
}

/// x cos + rotate_half(x) sin, as Hugging Face writes it. x [N, H, d].
inline at::Tensor rope_reference(const at::Tensor& x, const Stream& stream,
                                 const std::vector<double>& frequencies, double attention_factor = 1) {
  const auto half = static_cast<int64_t>(frequencies.size());
  const auto angles = at::outer(stream.positions.to(at::kDouble), at::tensor(frequencies, at::kDouble));
  const auto both = at::cat({angles, angles}, 1).unsqueeze(1);
  const auto turning = x.narrow(2, 0, 2 * half), rest = x.narrow(2, 2 * half, x.size(2) - 2 * half);
  const auto rotated = at::cat({-turning.narrow(2, half, half), turning.narrow(2, 0, half)}, 2);
  return at::cat({(turning * both.cos() + rotated * both.sin()) * attention_factor, rest}, 2);
}

/// Which token sees which, over the whole stream: [N, N] bool.
inline at::Tensor visible(const Stream& stream, int64_t window) {
  const auto offsets = at::tensor(stream.segment_offsets, at::kLong);
  const auto segment = at::arange(stream.num_segments(), at::kLong).repeat_interleave(offsets.diff());
  const auto ago = stream.positions.unsqueeze(1) - stream.positions.unsqueeze(0);
  auto sees = segment.unsqueeze(1).eq(segment.unsqueeze(0)).logical_and(ago >= 0);
  return window == 0 ? sees : sees.logical_and(ago < window);
}

inline at::Tensor attention_reference(const at::Tensor& x, const Leaves& w, const std::string& prefix,
                                      const AttentionConfig& config, const Rope& rope, const Stream& stream) {
  const int64_t d = config.head_dim, group = config.num_heads / config.num_kv_heads;
  auto q = linear_reference(x, w, prefix + ".q_proj").view({-1, config.num_heads, d});
  auto k = linear_reference(x, w, prefix + ".k_proj").view({-1, config.num_kv_heads, d});
  auto v = linear_reference(x, w, prefix + ".v_proj").view({-1, config.num_kv_heads, d});
  if (config.has_qk_norm) {
    q = norm_reference(q, w.at(prefix + ".q_norm.weight"), config.norm_eps);
    k = norm_reference(k, w.at(prefix + ".k_norm.weight"), config.norm_eps);
  }
  const auto frequencies = rope.inverse_frequencies(stream.max_segment);
  q = rope_reference(q, stream, frequencies, rope.attention_factor());
  k = rope_reference(k, stream, frequencies, rope.attention_factor()).repeat_interleave(group, 1);
  v = v.repeat_interleave(group, 1);
  auto scores = at::einsum("ihd,jhd->hij", {q, k}) / std::sqrt(static_cast<double>(d));
  scores = scores.masked_fill(visible(stream, config.sliding_window).logical_not(), -INFINITY);
  const auto out = at::einsum("hij,jhd->ihd", {scores.softmax(-1), v});
  return linear_reference(out.reshape({x.size(0), -1}), w, prefix + ".o_proj");
}

inline at::Tensor act_reference(Activation kind, const at::Tensor& x) {
  if (kind == Activation::silu) return x * at::sigmoid(x);
  return 0.5 * x * (1 + at::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))));
}

inline at::Tensor mlp_reference(const at::Tensor& x, const Leaves& w, const std::string& prefix,
                                Activation kind) {
  const auto gate = linear_reference(x, w, prefix + ".gate_proj");
  return linear_reference(act_reference(kind, gate) * linear_reference(x, w, prefix + ".up_proj"), w,
                          prefix + ".down_proj");
}

inline at::Tensor block_reference(const at::Tensor& x, const Leaves& w, const std::string& prefix,
                                  const BlockConfig& config, const Rope& rope, const Stream& stream) {
  const auto h =
      x + attention_reference(norm_reference(x, w.at(prefix + ".input_layernorm.weight"), config.norm_eps), w,
                              prefix + ".self_attn", config.attention, rope, stream);
  return h +
         mlp_reference(norm_reference(h, w.at(prefix + ".post_attention_layernorm.weight"), config.norm_eps),
                       w, prefix + ".mlp", config.mlp.activation);
}

/// Sum over the trained tokens of -log softmax(logits)[target].
inline at::Tensor loss_reference(const at::Tensor& logits, const Stream& stream) {
  const auto picked = logits.index_select(0, stream.trained).log_softmax(-1);
  return -picked.gather(1, stream.targets.index_select(0, stream.trained).unsqueeze(1)).sum();
}

}  // namespace duoka::model::test
