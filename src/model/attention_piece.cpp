// SPDX-License-Identifier: Apache-2.0
#include "model/attention_piece.h"

namespace duoka::model {

at::Tensor grouped(const at::Tensor& q, int64_t num_kv_heads) {
  return q.unflatten(1, {num_kv_heads, q.size(1) / num_kv_heads});
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
