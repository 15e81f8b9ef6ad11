// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <optional>

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sum.h>

#include "model/attention_kernel.h"
#include "model/row_loop.h"

namespace duoka::model {

namespace {

/// One segment as the kernel sees it. Key and value heads are its batch and the query heads that share one
/// are its heads: with a stride of 0 there, grouped heads need no copies of k and v.
struct Segment {
  int64_t begin, length;

  at::Tensor queries(const at::Tensor& q, int64_t num_kv_heads) const {  // [N, H, d] -> [Hkv, G, L, d]
    return q.narrow(0, begin, length)
        .view({length, num_kv_heads, q.size(1) / num_kv_heads, q.size(2)})
        .permute({1, 2, 0, 3});
  }
  at::Tensor keys(const at::Tensor& k, int64_t group) const {  // [N, Hkv, d] -> [Hkv, G, L, d]
    return k.narrow(0, begin, length).permute({1, 0, 2}).unsqueeze(1).expand({-1, group, -1, -1});
  }
};

std::vector<Segment> segments_of(const Stream& stream) {
  std::vector<Segment> segments;
  for (size_t s = 0; s + 1 < stream.segment_offsets.size(); ++s)
    segments.push_back(
        {stream.segment_offsets[s], stream.segment_offsets[s + 1] - stream.segment_offsets[s]});
  return segments;
}

/// 0 where a token sees another, -inf where not: [length, length]; none where plain causality says it all.
std::optional<at::Tensor> window_mask(const at::Tensor& q, int64_t length, int64_t window) {
  if (window == 0 || window >= length) return std::nullopt;
  const auto options = q.options();
  const auto outside = at::full({length, length}, -std::numeric_limits<double>::infinity(), options);
  return outside.triu(1) + outside.tril(-window);
}

}  // namespace

Attended attend_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Stream& stream,
                    int64_t window) {
  const int64_t num_kv_heads = k.size(1), group = q.size(1) / num_kv_heads;
  at::Tensor out = at::empty_like(q);
  at::Tensor log_sum_exp =
      at::empty({q.size(0) * q.size(1)},
                q.options().dtype(accumulate_dtype(q.scalar_type())));  // a segment after the other
  for (const Segment& segment : segments_of(stream)) {
    const auto mask = window_mask(q, segment.length, window);
    const auto [part, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
        segment.queries(q, num_kv_heads), segment.keys(k, group), segment.keys(v, group), 0.0, !mask, mask);
    segment.queries(out, num_kv_heads).copy_(part);
    log_sum_exp.narrow(0, segment.begin * q.size(1), segment.length * q.size(1)).view_as(lse).copy_(lse);
  }
  return {out, {log_sum_exp}};
}

AttentionGradients attend_cpu_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v, const Attended& attended, const Stream& stream,
                                       int64_t window) {
  const int64_t num_heads = q.size(1), num_kv_heads = k.size(1), group = num_heads / num_kv_heads;
  AttentionGradients result{at::empty_like(q), at::empty_like(k), at::empty_like(v)};
  for (const Segment& segment : segments_of(stream)) {
    const auto [begin, length] = segment;
    const auto mask = window_mask(q, length, window);
    const auto lse = attended.context[0]
                         .narrow(0, begin * num_heads, length * num_heads)
                         .view({num_kv_heads, group, length});
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        segment.queries(dout, num_kv_heads), segment.queries(q, num_kv_heads), segment.keys(k, group),
        segment.keys(v, group), segment.queries(attended.out, num_kv_heads), lse, 0.0, !mask, mask);
    segment.queries(result.dq, num_kv_heads).copy_(dq);
    // A key head's gradient is the sum over the query heads that share it.
    auto dk_rows = result.dk.narrow(0, begin, length), dv_rows = result.dv.narrow(0, begin, length);
    at::sum_out(dk_rows, dk.permute({2, 0, 1, 3}), 2);
    at::sum_out(dv_rows, dv.permute({2, 0, 1, 3}), 2);
  }
  return result;
}

}  // namespace duoka::model
