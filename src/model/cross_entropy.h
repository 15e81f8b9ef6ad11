// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

/// Cross entropy of rows of logits [n, V] (any floating dtype) against targets [n] i64, all in [0, V);
/// by log-sum-exp in f32 (f64 for f64).
namespace duoka::model {

/// Sum over the rows, a f64 tensor of one element on the device of the logits.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

/// The same, and puts the gradient of scale * sum in the place of the logits.
at::Tensor cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, double scale);

}  // namespace duoka::model
