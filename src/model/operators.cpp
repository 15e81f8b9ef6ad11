// SPDX-License-Identifier: Apache-2.0
#include "model/operators.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include "model/row_loop.h"

namespace duoka::model::operators {

namespace {

at::Tensor act(Activation kind, const at::Tensor& x) {
  return kind == Activation::silu ? at::silu(x) : at::gelu(x, "tanh");
}

at::Tensor act_backward(Activation kind, const at::Tensor& dy, const at::Tensor& x) {
  return kind == Activation::silu ? at::silu_backward(dy, x) : at::gelu_backward(dy, x, "tanh");
}

at::Tensor wide(const at::Tensor& x) { return x.to(accumulate_dtype(x.scalar_type())); }

}  // namespace

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& w, double eps) {
  const auto wide = x.to(w.scalar_type());
  auto rstd = wide.square().mean(-1, true).add_(eps).rsqrt_();
  return {(wide * rstd).mul_(w).to(x.scalar_type()), std::move(rstd)};
}

// dx = r (g - x r^2 mean(g x)) with g = w dy; see rows_norm.cpp.
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                     const at::Tensor& rstd, const at::Tensor& w,
                                                     bool wants_dw) {
  const auto wide_dy = dy.to(w.scalar_type()), normed = x.to(w.scalar_type()) * rstd, g = wide_dy * w;
  const auto along = (g * normed).mean(-1, true);
  return {(g - normed * along).mul_(rstd).to(x.scalar_type()),
          wants_dw ? (wide_dy * normed).view({-1, x.size(-1)}).sum(0) : at::Tensor()};
}

void rotate_(at::Tensor& x, const Rope::Angles& angles, bool inverse) {
  const int64_t half = angles.cos.size(1);
  const auto wide = x.narrow(-1, 0, 2 * half).to(angles.cos.scalar_type());
  const auto first = wide.narrow(-1, 0, half), second = wide.narrow(-1, half, half);
  const auto cos = angles.cos.unsqueeze(1), sin = (inverse ? angles.sin.neg() : angles.sin).unsqueeze(1);
  const auto turned_first = first * cos - second * sin, turned_second = second * cos + first * sin;
  x.narrow(-1, 0, half).copy_(turned_first);
  x.narrow(-1, half, half).copy_(turned_second);
}

at::Tensor gated(Activation kind, const at::Tensor& gate, const at::Tensor& up) {
  return act(kind, gate).mul_(up);
}

void gated_backward(Activation kind, const at::Tensor& dy, at::Tensor& gate, at::Tensor& up) {
  at::Tensor dgate = act_backward(kind, dy * up, gate);
  up = act(kind, gate).mul_(dy);
  gate = std::move(dgate);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const auto log_p = at::log_softmax(logits, 1, accumulate_dtype(logits.scalar_type()));
  return log_p.gather(1, targets.unsqueeze(1)).sum(at::kDouble).neg_();
}

at::Tensor cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, double scale) {
  auto log_p = at::log_softmax(logits, 1, accumulate_dtype(logits.scalar_type()));
  const auto index = targets.unsqueeze(1), picked = log_p.gather(1, index);
  logits.copy_(
      log_p.exp_().scatter_(1, index, picked.expm1()).mul_(scale));  // expm1: p - 1 where p is almost 1
  return picked.sum(at::kDouble).neg_();
}

at::Tensor largest(const at::Tensor& logits) { return wide(logits.amax(1)); }

at::Tensor sum_exp(const at::Tensor& logits, const at::Tensor& top) {
  return wide(logits).sub(top.unsqueeze(1)).exp_().sum(1);
}

void softmax_(at::Tensor& logits, const at::Tensor& top, const at::Tensor& log_sum, double scale) {
  logits.copy_(wide(logits).sub(top.unsqueeze(1)).sub_(log_sum.unsqueeze(1)).exp_().mul_(scale));
}

}  // namespace duoka::model::operators
