// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/mean_squared_error.h"

#include <ATen/ops/zeros_like.h>

namespace duoka::parallel {

namespace {

/// x - wanted for the trained tokens, [num_trained, D].
at::Tensor difference(const at::Tensor& x, const at::Tensor& wanted, const Stream& stream) {
  return x.index_select(0, stream.trained) - wanted.index_select(0, stream.trained);
}

double sum_of_means(const at::Tensor& difference) {
  return difference.to(at::kDouble).square().sum().item<double>() / static_cast<double>(difference.size(1));
}

}  // namespace

double MeanSquaredError::loss_sum(const at::Tensor& x, const Stream& stream) {
  return sum_of_means(difference(x, wanted_(stream), stream));
}

Objective::Share MeanSquaredError::loss_and_gradient(const at::Tensor& x, const Stream& stream,
                                                     double scale) {
  const at::Tensor error = difference(x, wanted_(stream), stream);
  Share share;
  share.loss_sum = sum_of_means(error);
  share.dx = at::zeros_like(x);
  share.dx.index_copy_(0, stream.trained, error * (2 * scale / static_cast<double>(x.size(1))));
  return share;
}

}  // namespace duoka::parallel
