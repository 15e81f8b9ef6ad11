// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>

#include "duoka/model/mlp.h"
#include "duoka/model/rope.h"

/// What the loops of rows.h compute, by tensor operations: what the kernels are tested against, and what
/// a device without kernels of ours computes by (card.h). Same arithmetic, in f32 for half types (f64 for f64).
namespace duoka::model::operators {

/// x [..., D], w [D] in the dtype of the arithmetic -> y of x's dtype, rstd [..., 1].
std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& w, double eps);
/// -> dx, and dw (undefined where not asked for).
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                     const at::Tensor& rstd, const at::Tensor& w,
                                                     bool wants_dw);

/// See Rope::rotate_().
void rotate_(at::Tensor& x, const Rope::Angles& angles, bool inverse);

/// act(gate) * up.
at::Tensor gated(Activation kind, const at::Tensor& gate, const at::Tensor& up);
/// Replaces gate and up by their gradients.
void gated_backward(Activation kind, const at::Tensor& dy, at::Tensor& gate, at::Tensor& up);

/// See cross_entropy.h.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);
at::Tensor cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, double scale);

/// The parts of it for logits [n, V] whose columns several ranks have, see rows.h. top, log_sum [n].
at::Tensor largest(const at::Tensor& logits);
at::Tensor sum_exp(const at::Tensor& logits, const at::Tensor& top);
void softmax_(at::Tensor& logits, const at::Tensor& top, const at::Tensor& log_sum, double scale);

}  // namespace duoka::model::operators
