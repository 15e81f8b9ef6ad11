// SPDX-License-Identifier: Apache-2.0
#include "model/attention_piece.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

namespace duoka::model {

namespace {

/// As ATen's kernel wants it: key heads are its batch and the query heads that share one its heads.
at::Tensor heads_first(const at::Tensor& q) { return q.permute({1, 2, 0, 3}); }
at::Tensor heads_last(const at::Tensor& out) { return out.permute({2, 0, 1, 3}); }

/// [Lk, Hkv, d] -> [Hkv, G, Lk, d], with a stride of 0 instead of copies.
at::Tensor shared_heads_first(const at::Tensor& k, int64_t group) {
  return k.permute({1, 0, 2}).unsqueeze(1).expand({-1, group, -1, -1});
}

}  // namespace

PieceAttended attend_piece_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               bool is_causal) {
  const int64_t group = q.size(2);
  const auto [out, log_sum_exp] = at::_scaled_dot_product_flash_attention_for_cpu(
      heads_first(q), shared_heads_first(k, group), shared_heads_first(v, group), 0.0, is_causal);
  return {heads_last(out), log_sum_exp.permute({2, 0, 1})};
}

AttentionGradients attend_piece_cpu_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                             const at::Tensor& v, const PieceAttended& whole,
                                             bool is_causal) {
  const int64_t group = q.size(2);
  const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      heads_first(dout), heads_first(q), shared_heads_first(k, group), shared_heads_first(v, group),
      heads_first(whole.out), whole.log_sum_exp.permute({1, 2, 0}), 0.0, is_causal);
  // A key head's gradient is the sum over the query heads that share it.
  return {heads_last(dq), heads_last(dk).sum(2), heads_last(dv).sum(2)};
}

PieceAttended attend_piece(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool is_causal) {
  const AttentionKernel kernel = choose_attention_kernel(q);
  return kernel == AttentionKernel::cpu_flash ? attend_piece_cpu(q, k, v, is_causal)
                                              : attend_piece_cuda(kernel, q, k, v, is_causal);
}

AttentionGradients attend_piece_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                         const at::Tensor& v, const PieceAttended& whole, bool is_causal) {
  const AttentionKernel kernel = choose_attention_kernel(q);
  return kernel == AttentionKernel::cpu_flash
             ? attend_piece_cpu_backward(dout, q, k, v, whole, is_causal)
             : attend_piece_cuda_backward(kernel, dout, q, k, v, whole, is_causal);
}

}  // namespace duoka::model
