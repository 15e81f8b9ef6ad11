// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>

#include "duoka/model/mlp.h"
#include "duoka/model/rope.h"

/// What the loops of rows.h compute, on a device other than the CPU: by kernels of our own (card.cpp), or by
/// the tensor operations of operators.h where built without CUDA (no_card.cpp). Shapes and dtypes as there;
/// tensors are contiguous (StateError), but for heads that lie apart in rotate_().
namespace duoka::model::card {

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& w, double eps);
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                     const at::Tensor& rstd, const at::Tensor& w,
                                                     bool wants_dw);

void rotate_(at::Tensor& x, const Rope::Angles& angles, bool inverse);

at::Tensor gated(Activation kind, const at::Tensor& gate, const at::Tensor& up);
void gated_backward(Activation kind, const at::Tensor& dy, at::Tensor& gate, at::Tensor& up);

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);
at::Tensor cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, double scale);

at::Tensor largest(const at::Tensor& logits);
at::Tensor sum_exp(const at::Tensor& logits, const at::Tensor& top);
void softmax_(at::Tensor& logits, const at::Tensor& top, const at::Tensor& log_sum, double scale);

}  // namespace duoka::model::card
