// SPDX-License-Identifier: Apache-2.0
#include "model/attention_kernel.h"

#include "duoka/core/error.h"

namespace duoka::model {

AttentionKernel choose_attention_kernel(const at::Tensor& q) {
  const auto dtype = q.scalar_type();
  if (q.is_cpu()) return AttentionKernel::cpu_flash;
  if (q.is_cuda() && (dtype == at::kHalf || dtype == at::kBFloat16)) return AttentionKernel::cuda_flash;
  if (q.is_cuda() && dtype == at::kFloat) return AttentionKernel::cuda_efficient;
  throw StateError(std::string("no attention kernel for ") + c10::toString(dtype) + " on " +
                   q.device().str() + "; use bf16, f16 or f32 there");
}

size_t num_context(AttentionKernel kernel) { return kernel == AttentionKernel::cpu_flash ? 1 : 3; }

Attended attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Stream& stream,
                int64_t window) {
  const AttentionKernel kernel = choose_attention_kernel(q);
  return kernel == AttentionKernel::cpu_flash ? attend_cpu(q, k, v, stream, window)
                                              : attend_cuda(kernel, q, k, v, stream, window);
}

AttentionGradients attend_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const Attended& attended, const Stream& stream,
                                   int64_t window) {
  const AttentionKernel kernel = choose_attention_kernel(q);
  return kernel == AttentionKernel::cpu_flash
             ? attend_cpu_backward(dout, q, k, v, attended, stream, window)
             : attend_cuda_backward(kernel, dout, q, k, v, attended, stream, window);
}

}  // namespace duoka::model
