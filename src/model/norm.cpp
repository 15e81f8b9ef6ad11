// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "model/row_loop.h"
#include "model/rows.h"

namespace duoka::model {

namespace {

/// The factor w in the dtype of the arithmetic, the one of `plus_one` added there.
at::Tensor factor(const Parameter& weight, bool plus_one) {
  const auto w = weight.value.to(accumulate_dtype(weight.value.scalar_type()));
  return plus_one ? w + 1 : w;
}

struct Normed {
  at::Tensor y, rstd;  // rstd [..., 1]
};

std::vector<int64_t> one_a_row(const at::Tensor& x) {
  auto shape = x.sizes().vec();
  shape.back() = 1;
  return shape;
}

Normed normed_by_rows(const at::Tensor& x, const at::Tensor& w, double eps) {
  Normed result{at::empty_like(x), at::empty(one_a_row(x), w.options())};
  const int64_t d = x.size(-1);
  with_type_of(x, [&]<class T>() {
    using A = Accumulate<T>;
    const T* const from = x.const_data_ptr<T>();
    const A* const factors = w.const_data_ptr<A>();
    T* const to = result.y.mutable_data_ptr<T>();
    A* const rstd = result.rstd.mutable_data_ptr<A>();
    for_rows(x.numel() / d, d, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        rstd[i] = rows::rms_norm(from + i * d, factors, to + i * d, d, eps);
    });
  });
  return result;
}

Normed normed_by_operators(const at::Tensor& x, const at::Tensor& w, double eps) {
  const auto wide = x.to(w.scalar_type());
  auto rstd = wide.square().mean(-1, true).add_(eps).rsqrt_();
  return {(wide * rstd).mul_(w).to(x.scalar_type()), std::move(rstd)};
}

Normed normed(const at::Tensor& x, const at::Tensor& w, double eps) {
  return x.is_cpu() ? normed_by_rows(x, w, eps) : normed_by_operators(x, w, eps);
}

struct Gradients {
  at::Tensor dx, dw;  // dw undefined where not asked for
};

/// dw is summed a block of rows at a time, then over the blocks: an order that does not depend on threads.
Gradients gradients_by_rows(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                            const at::Tensor& w, bool wants_dw) {
  constexpr int64_t block = 64;
  const int64_t d = x.size(-1), num_rows = x.numel() / d, num_blocks = (num_rows + block - 1) / block;
  at::Tensor dx = at::empty_like(x),
             partial = wants_dw ? at::zeros({num_blocks, d}, w.options()) : at::Tensor();
  with_type_of(x, [&]<class T>() {
    using A = Accumulate<T>;
    const T* const dys = dy.const_data_ptr<T>();
    const T* const xs = x.const_data_ptr<T>();
    const A* const rstds = rstd.const_data_ptr<A>();
    const A* const factors = w.const_data_ptr<A>();
    T* const dxs = dx.mutable_data_ptr<T>();
    A* const dws = wants_dw ? partial.mutable_data_ptr<A>() : nullptr;
    for_rows(num_blocks, block * d, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * block; i < std::min(end * block, num_rows); ++i)
        rows::rms_norm_backward(dys + i * d, xs + i * d, rstds[i], factors, dxs + i * d,
                                dws == nullptr ? nullptr : dws + i / block * d, d);
    });
  });
  return {dx, wants_dw ? partial.sum(0) : at::Tensor()};
}

// dx = r (g - x r^2 mean(g x)) with g = w dy; see rows_norm.cpp.
Gradients gradients_by_operators(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                                 const at::Tensor& w, bool wants_dw) {
  const auto wide_dy = dy.to(w.scalar_type()), normed_x = x.to(w.scalar_type()).mul_(rstd), g = wide_dy * w;
  const auto along = (g * normed_x).mean(-1, true);
  const int64_t d = x.size(-1);
  return {(g - normed_x * along).mul_(rstd).to(x.scalar_type()),
          wants_dw ? (wide_dy * normed_x).view({-1, d}).sum(0) : at::Tensor()};
}

}  // namespace

RmsNorm::RmsNorm(Parameter weight, double eps, bool plus_one)
    : weight_(std::move(weight)), eps_(eps), plus_one_(plus_one) {}

at::Tensor RmsNorm::apply(const at::Tensor& x) const {
  return normed(x.contiguous(), factor(weight_, plus_one_), eps_).y;
}

at::Tensor RmsNorm::forward(const at::Tensor& x, const Stream&, Saved& saved) {
  const at::Tensor flat = x.contiguous();
  Normed result = normed(flat, factor(weight_, plus_one_), eps_);
  saved.push(flat);
  saved.push(result.rstd);
  return result.y;
}

at::Tensor RmsNorm::backward(const at::Tensor& dy, const Stream&, Saved& saved) {
  const at::Tensor rstd = saved.pop(), x = saved.pop(), w = factor(weight_, plus_one_);
  const Gradients result = x.is_cpu() ? gradients_by_rows(dy.contiguous(), x, rstd, w, weight_.is_trainable)
                                      : gradients_by_operators(dy, x, rstd, w, weight_.is_trainable);
  if (weight_.is_trainable) weight_.accumulate(result.dw);
  return result.dx;
}

}  // namespace duoka::model
