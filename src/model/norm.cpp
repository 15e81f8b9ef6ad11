// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "model/card.h"
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

Normed normed(const at::Tensor& x, const at::Tensor& w, double eps) {
  if (x.is_cpu()) return normed_by_rows(x, w, eps);
  auto [y, rstd] = card::rms_norm(x, w, eps);
  return {std::move(y), std::move(rstd)};
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

Gradients gradients(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd, const at::Tensor& w,
                    bool wants_dw) {
  if (x.is_cpu()) return gradients_by_rows(dy.contiguous(), x, rstd, w, wants_dw);
  auto [dx, dw] = card::rms_norm_backward(dy.contiguous(), x, rstd, w, wants_dw);
  return {std::move(dx), std::move(dw)};
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
  const Gradients result = gradients(dy, x, rstd, w, weight_.is_trainable);
  if (weight_.is_trainable) weight_.accumulate(result.dw);
  return result.dx;
}

}  // namespace duoka::model
