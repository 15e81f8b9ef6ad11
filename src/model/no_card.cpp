// SPDX-License-Identifier: Apache-2.0
#include "model/card.h"
#include "model/operators.h"

namespace duoka::model::card {

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& w, double eps) {
  return operators::rms_norm(x, w, eps);
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                     const at::Tensor& rstd, const at::Tensor& w,
                                                     bool wants_dw) {
  return operators::rms_norm_backward(dy, x, rstd, w, wants_dw);
}

void rotate_(at::Tensor& x, const Rope::Angles& angles, bool inverse) {
  operators::rotate_(x, angles, inverse);
}

at::Tensor gated(Activation kind, const at::Tensor& gate, const at::Tensor& up) {
  return operators::gated(kind, gate, up);
}

void gated_backward(Activation kind, const at::Tensor& dy, at::Tensor& gate, at::Tensor& up) {
  operators::gated_backward(kind, dy, gate, up);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  return operators::cross_entropy(logits, targets);
}

at::Tensor cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, double scale) {
  return operators::cross_entropy_backward_(logits, targets, scale);
}

at::Tensor largest(const at::Tensor& logits) { return operators::largest(logits); }

at::Tensor sum_exp(const at::Tensor& logits, const at::Tensor& top) {
  return operators::sum_exp(logits, top);
}

void softmax_(at::Tensor& logits, const at::Tensor& top, const at::Tensor& log_sum, double scale) {
  operators::softmax_(logits, top, log_sum, scale);
}

}  // namespace duoka::model::card
