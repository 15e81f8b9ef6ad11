// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "model/attention_kernel.h"

/// Attention of a piece of a row to another piece of it, of which ring attention is put together.
/// q [Lq, Hkv, G, d] (G query heads share a key head), k and v [Lk, Hkv, d]; scale 1/sqrt(d); neither piece
/// is empty. Every query sees every key; `is_causal`: the pieces are the same tokens, each sees those up to
/// itself.
namespace duoka::model {

/// What attend_piece() takes, of a stream's heads: [n, H, d] -> [n, Hkv, G, d], and [n, H] -> [n, Hkv, G].
at::Tensor grouped(const at::Tensor& q, int64_t num_kv_heads);

struct PieceAttended {
  at::Tensor out;          ///< [Lq, Hkv, G, d], the dtype of q.
  at::Tensor log_sum_exp;  ///< [Lq, Hkv, G] of the scores, f32 (f64 for f64).
};

PieceAttended attend_piece(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool is_causal);

/// What the piece gives to the gradients. `whole`: result of the queries' attention to all they see, not only
/// to this piece. dq [Lq, Hkv, G, d], dk and dv [Lk, Hkv, d].
AttentionGradients attend_piece_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                         const at::Tensor& v, const PieceAttended& whole, bool is_causal);

/// The kernels, one file each device.
PieceAttended attend_piece_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool is_causal);
AttentionGradients attend_piece_cpu_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                             const at::Tensor& v, const PieceAttended& whole, bool is_causal);
PieceAttended attend_piece_cuda(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
                                const at::Tensor& v, bool is_causal);
AttentionGradients attend_piece_cuda_backward(AttentionKernel kernel, const at::Tensor& dout,
                                              const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                              const PieceAttended& whole, bool is_causal);

}  // namespace duoka::model
