// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "model/attention_piece.h"

// A piece is a batch of one sequence. The kernels are reached through the dispatcher, so this file needs no
// CUDA to compile.
namespace duoka::model {

namespace {

/// [Lq, Hkv, G, d] -> [1, Lq, H, d].
at::Tensor batched(const at::Tensor& q) { return q.flatten(1, 2).unsqueeze(0); }
/// The way back.
at::Tensor grouped(const at::Tensor& out, const at::Tensor& q) { return out.squeeze(0).view_as(q); }

/// [1, H, >= Lq] -> [Lq, Hkv, G]: the efficient kernel rounds Lq up.
at::Tensor tokens_first(const at::Tensor& log_sum_exp, const at::Tensor& q) {
  return log_sum_exp.squeeze(0).narrow(1, 0, q.size(0)).t().unflatten(1, {q.size(1), q.size(2)});
}
/// The way back, with as many numbers a head as `length`. The last are infinite: exp(score - inf) is 0.
at::Tensor heads_first(const at::Tensor& log_sum_exp, int64_t length) {
  const auto rows = log_sum_exp.flatten(1).t();
  const auto all =
      at::full({1, rows.size(0), length}, std::numeric_limits<double>::infinity(), rows.options());
  all.squeeze(0).narrow(1, 0, rows.size(1)).copy_(rows);
  return all;
}

/// The efficient kernel knows no grouped heads: [Lk, Hkv, d] -> [1, Lk, H, d].
at::Tensor for_each_query_head(const at::Tensor& k, int64_t group) {
  return k.repeat_interleave(group, 1).unsqueeze(0);
}

/// A random state, which without dropout nobody reads.
at::Tensor no_state(const at::Tensor& q) { return at::zeros({2}, q.options().dtype(at::kLong)); }

PieceAttended flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool is_causal) {
  const auto [out, lse, rng_state, unused, debug] =
      at::_flash_attention_forward(batched(q), k.unsqueeze(0), v.unsqueeze(0), std::nullopt, std::nullopt,
                                   q.size(0), k.size(0), 0.0, is_causal, false);
  return {grouped(out, q), tokens_first(lse, q)};
}

AttentionGradients flash_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v, const PieceAttended& whole, bool is_causal) {
  const auto state = no_state(q);
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      batched(dout), batched(q), k.unsqueeze(0), v.unsqueeze(0), batched(whole.out),
      heads_first(whole.log_sum_exp, q.size(0)), {}, {}, q.size(0), k.size(0), 0.0, is_causal, state, state);
  return {grouped(dq, q), dk.squeeze(0), dv.squeeze(0)};
}

PieceAttended efficient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool is_causal) {
  const int64_t group = q.size(2);
  const auto [out, lse, seed, offset, max_q, max_k] = at::_efficient_attention_forward(
      batched(q), for_each_query_head(k, group), for_each_query_head(v, group), std::nullopt, std::nullopt,
      std::nullopt, std::nullopt, std::nullopt, 0.0, /*custom_mask_type=*/is_causal ? 1 : 0,
      /*compute_log_sumexp=*/true);
  return {grouped(out, q), tokens_first(lse, q)};
}

AttentionGradients efficient_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                      const at::Tensor& v, const PieceAttended& whole, bool is_causal) {
  constexpr int64_t aligned = 32;  // what the kernel rounds a head's log-sum-exps up to
  const int64_t group = q.size(2);
  const auto state = no_state(q);
  const auto [dq, dk, dv, dbias] = at::_efficient_attention_backward(
      batched(dout), batched(q), for_each_query_head(k, group), for_each_query_head(v, group), std::nullopt,
      batched(whole.out), std::nullopt, std::nullopt, q.size(0), k.size(0),
      heads_first(whole.log_sum_exp, (q.size(0) + aligned - 1) / aligned * aligned), 0.0, state, state,
      is_causal ? 1 : 0, /*bias_requires_grad=*/false);
  const auto sum_of_group = [&](const at::Tensor& d) {
    return d.squeeze(0).unflatten(1, {k.size(1), group}).sum(2);
  };
  return {grouped(dq, q), sum_of_group(dk), sum_of_group(dv)};
}

}  // namespace

PieceAttended attend_piece_cuda(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
                                const at::Tensor& v, bool is_causal) {
  return kernel == AttentionKernel::cuda_flash ? flash(q, k, v, is_causal) : efficient(q, k, v, is_causal);
}

AttentionGradients attend_piece_cuda_backward(AttentionKernel kernel, const at::Tensor& dout,
                                              const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                              const PieceAttended& whole, bool is_causal) {
  return kernel == AttentionKernel::cuda_flash ? flash_backward(dout, q, k, v, whole, is_causal)
                                               : efficient_backward(dout, q, k, v, whole, is_causal);
}

}  // namespace duoka::model
