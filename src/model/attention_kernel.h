// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/stream.h"

/// Scaled dot-product attention over a stream: causal, each segment on its own, grouped heads.
/// q [N, H, d], k and v [N, Hkv, d], out [N, H, d]; scale 1/sqrt(d).
namespace duoka::model {

struct Attended {
  at::Tensor out;
  std::vector<at::Tensor> context;  ///< What the kernel's backward needs besides q, k, v and out.
};

struct AttentionGradients {
  at::Tensor dq, dk, dv;
};

/// The kernels there are. See choose_attention_kernel().
enum class AttentionKernel { cpu_flash, cuda_flash, cuda_efficient };

/// The one place where a kernel is chosen: by device and dtype.
/// Throws StateError where there is none (f64 on CUDA).
AttentionKernel choose_attention_kernel(const at::Tensor& q);

/// Number of tensors in Attended::context.
size_t num_context(AttentionKernel kernel);

/// `window`: a token sees itself and window - 1 before it; 0: all before it.
Attended attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Stream& stream,
                int64_t window);
AttentionGradients attend_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const Attended& attended, const Stream& stream,
                                   int64_t window);

/// Queries and keys of one row of which every query sees every key (or, causal, those up to itself).
struct AttentionPiece {
  int64_t q_begin, q_length;  ///< In the tokens of q.
  int64_t k_begin, k_length;  ///< In those of k and v.
  bool is_causal;
};

/// The kernels, one file each device.
Attended attend_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Stream& stream,
                    int64_t window);
AttentionGradients attend_cpu_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v, const Attended& attended, const Stream& stream,
                                       int64_t window);
Attended attend_cuda(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const Stream& stream, int64_t window);
AttentionGradients attend_cuda_backward(AttentionKernel kernel, const at::Tensor& dout, const at::Tensor& q,
                                        const at::Tensor& k, const at::Tensor& v, const Attended& attended,
                                        const Stream& stream, int64_t window);

}  // namespace duoka::model
