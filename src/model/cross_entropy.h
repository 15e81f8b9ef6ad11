// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "duoka/model/tensor_axis.h"

/// Cross entropy of rows of logits [n, V] (any floating dtype) against targets [n] i64, all in [0, V);
/// by log-sum-exp in f32 (f64 for f64).
namespace duoka::model {

/// Sum over the rows, a f64 tensor of one element on the device of the logits.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

/// The same, and puts the gradient of scale * sum in the place of the logits.
at::Tensor cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, double scale);

/// Where the columns of this rank's logits lie among those of all ranks.
struct LogitsPart {
  const TensorAxis& axis;
  int64_t first_column = 0;
  int64_t num_columns = 0;  ///< Of all ranks.
};

/// The two with the columns spread over an axis: targets in [0, part.num_columns), the same on all ranks, and
/// so is the sum. Collective; sends three numbers a row. With one rank they are the two above.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const LogitsPart& part);
at::Tensor cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, double scale,
                                   const LogitsPart& part);

/// Throws StateError when a target is not in [0, num_columns).
void check_targets(const at::Tensor& targets, int64_t num_columns);

}  // namespace duoka::model
