// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>

#include "model/attention_kernel.h"

// Both kernels take the stream as it is, with the segments' offsets. They are reached through the dispatcher,
// so this file needs no CUDA to compile.
namespace duoka::model {

namespace {

constexpr int64_t causal_from_top_left = 1;  // custom_mask_type of the efficient kernel

std::optional<int64_t> if_any(int64_t window) { return window > 0 ? std::optional(window) : std::nullopt; }

/// Tokens to the left that are seen besides the own one, as the flash kernel counts.
std::optional<int64_t> left_of(int64_t window) {
  return window > 0 ? std::optional(window - 1) : std::nullopt;
}
std::optional<int64_t> right_of(int64_t window) {
  return window > 0 ? std::optional<int64_t>(0) : std::nullopt;
}

/// The efficient kernel knows no grouped heads: [N, Hkv, d] -> [1, N, H, d].
at::Tensor for_each_query_head(const at::Tensor& k, int64_t num_heads) {
  return k.repeat_interleave(num_heads / k.size(1), 1).unsqueeze(0);
}

/// The gradient's way back: [1, N, H, d] -> [N, Hkv, d].
at::Tensor sum_of_group(const at::Tensor& dk, int64_t num_kv_heads) {
  const auto flat = dk.squeeze(0);
  return flat.reshape({flat.size(0), num_kv_heads, flat.size(1) / num_kv_heads, flat.size(2)}).sum(2);
}

Attended flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Stream& stream,
               int64_t window) {
  auto [out, lse, rng_state, unused, debug] = at::_flash_attention_forward(
      q, k, v, stream.segments, stream.segments, stream.max_segment, stream.max_segment, 0.0, true, false,
      std::nullopt, left_of(window), right_of(window));
  return {out, {lse, rng_state, unused}};
}

AttentionGradients flash_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v, const Attended& attended, const Stream& stream,
                                  int64_t window) {
  auto [dq, dk, dv] = at::_flash_attention_backward(
      dout, q, k, v, attended.out, attended.context[0], stream.segments, stream.segments, stream.max_segment,
      stream.max_segment, 0.0, true, attended.context[1], attended.context[2], std::nullopt, left_of(window),
      right_of(window));
  return {dq, dk, dv};
}

Attended efficient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Stream& stream,
                   int64_t window) {
  auto [out, lse, seed, offset, max_q, max_k] = at::_efficient_attention_forward(
      q.unsqueeze(0), for_each_query_head(k, q.size(1)), for_each_query_head(v, q.size(1)), std::nullopt,
      stream.segments, stream.segments, stream.max_segment, stream.max_segment, 0.0, causal_from_top_left,
      /*compute_log_sumexp=*/true, std::nullopt, std::nullopt, if_any(window));
  return {out.squeeze(0), {lse, seed, offset}};
}

AttentionGradients efficient_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                      const at::Tensor& v, const Attended& attended, const Stream& stream,
                                      int64_t window) {
  auto [dq, dk, dv, dbias] = at::_efficient_attention_backward(
      dout.unsqueeze(0), q.unsqueeze(0), for_each_query_head(k, q.size(1)), for_each_query_head(v, q.size(1)),
      std::nullopt, attended.out.unsqueeze(0), stream.segments, stream.segments, stream.max_segment,
      stream.max_segment, attended.context[0], 0.0, attended.context[1], attended.context[2],
      causal_from_top_left,
      /*bias_requires_grad=*/false, std::nullopt, std::nullopt, if_any(window));
  return {dq.squeeze(0), sum_of_group(dk, k.size(1)), sum_of_group(dv, v.size(1))};
}

}  // namespace

Attended attend_cuda(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const Stream& stream, int64_t window) {
  return kernel == AttentionKernel::cuda_flash ? flash(q, k, v, stream, window)
                                               : efficient(q, k, v, stream, window);
}

AttentionGradients attend_cuda_backward(AttentionKernel kernel, const at::Tensor& dout, const at::Tensor& q,
                                        const at::Tensor& k, const at::Tensor& v, const Attended& attended,
                                        const Stream& stream, int64_t window) {
  return kernel == AttentionKernel::cuda_flash ? flash_backward(dout, q, k, v, attended, stream, window)
                                               : efficient_backward(dout, q, k, v, attended, stream, window);
}

}  // namespace duoka::model
