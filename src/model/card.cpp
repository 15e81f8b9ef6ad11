// SPDX-License-Identifier: Apache-2.0
#include "model/card.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "core/card_launch.h"
#include "model/card_kernels.h"
#include "model/lane_gated.h"
#include "model/row_loop.h"

namespace duoka::model::card {

namespace {

/// Calls body.template operator()<Act, T>().
template <class Body>
void with_activation(Activation kind, const at::Tensor& gate, const Body& body) {
  with_type_of(gate, [&]<class T>() {
    if (kind == Activation::silu)
      body.template operator()<lanes::Silu, T>();
    else
      body.template operator()<lanes::GeluTanh, T>();
  });
}

/// A number a row of logits, in the dtype of the arithmetic.
at::Tensor one_a_row(const at::Tensor& logits) {
  return at::empty({logits.size(0)}, logits.options().dtype(accumulate_dtype(logits.scalar_type())));
}

/// A loss a row.
at::Tensor losses_of(const at::Tensor& logits) {
  return at::empty({logits.size(0)}, logits.options().dtype(at::kDouble));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& w, double eps) {
  auto shape = x.sizes().vec();
  shape.back() = 1;
  at::Tensor y = at::empty_like(x), rstd = at::empty(shape, w.options());
  const CardLaunch launch(x);
  with_type_of(x, [&]<class T>() {
    using A = Accumulate<T>;
    rms_norm(card_data<const T>(x), card_data<const A>(w), card_data<T>(y), card_data<A>(rstd), rstd.numel(),
             x.size(-1), eps, launch.stream());
  });
  return {std::move(y), std::move(rstd)};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                     const at::Tensor& rstd, const at::Tensor& w,
                                                     bool wants_dw) {
  const int64_t num_columns = x.size(-1), num_rows = rstd.numel();
  at::Tensor dx = at::empty_like(x), partial;
  if (wants_dw) partial = at::empty({(num_rows + dw_rows - 1) / dw_rows, num_columns}, w.options());
  const CardLaunch launch(x);
  with_type_of(x, [&]<class T>() {
    using A = Accumulate<T>;
    const T *const dys = card_data<const T>(dy), *const xs = card_data<const T>(x);
    const A* const rstds = card_data<const A>(rstd);
    rms_norm_backward(dys, xs, rstds, card_data<const A>(w), card_data<T>(dx), num_rows, num_columns,
                      launch.stream());
    if (wants_dw) rms_norm_dw(dys, xs, rstds, card_data<A>(partial), num_rows, num_columns, launch.stream());
  });
  return {std::move(dx), wants_dw ? partial.sum(0) : at::Tensor()};
}

void rotate_(at::Tensor& x, const Rope::Angles& angles, bool inverse) {
  if (x.stride(2) != 1) throw StateError("a rotation of heads whose numbers do not lie side by side");
  const Heads heads{x.size(0), x.size(1), x.stride(0), x.stride(1)};
  const CardLaunch launch(x);
  with_type_of(x, [&]<class T>() {
    using A = Accumulate<T>;
    rotate(x.mutable_data_ptr<T>(), heads, card_data<const A>(angles.cos), card_data<const A>(angles.sin),
           angles.cos.size(1), inverse, launch.stream());
  });
}

at::Tensor gated(Activation kind, const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor y = at::empty_like(gate);
  const CardLaunch launch(gate);
  with_activation(kind, gate, [&]<class Act, class T>() {
    gated<Act>(card_data<const T>(gate), card_data<const T>(up), card_data<T>(y), gate.numel(),
               launch.stream());
  });
  return y;
}

void gated_backward(Activation kind, const at::Tensor& dy, at::Tensor& gate, at::Tensor& up) {
  const CardLaunch launch(gate);
  with_activation(kind, gate, [&]<class Act, class T>() {
    gated_backward<Act>(card_data<const T>(dy), card_data<T>(gate), card_data<T>(up), gate.numel(),
                        launch.stream());
  });
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  at::Tensor losses = losses_of(logits);
  const CardLaunch launch(logits);
  with_type_of(logits, [&]<class T>() {
    cross_entropy(card_data<const T>(logits), card_data<const int64_t>(targets), card_data<double>(losses),
                  logits.size(0), logits.size(1), launch.stream());
  });
  return losses.sum();
}

at::Tensor cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, double scale) {
  at::Tensor losses = losses_of(logits);
  const CardLaunch launch(logits);
  with_type_of(logits, [&]<class T>() {
    cross_entropy_backward(card_data<T>(logits), card_data<const int64_t>(targets), card_data<double>(losses),
                           scale, logits.size(0), logits.size(1), launch.stream());
  });
  return losses.sum();
}

at::Tensor largest(const at::Tensor& logits) {
  at::Tensor top = one_a_row(logits);
  const CardLaunch launch(logits);
  with_type_of(logits, [&]<class T>() {
    largest(card_data<const T>(logits), card_data<Accumulate<T>>(top), logits.size(0), logits.size(1),
            launch.stream());
  });
  return top;
}

at::Tensor sum_exp(const at::Tensor& logits, const at::Tensor& top) {
  at::Tensor sums = one_a_row(logits);
  const CardLaunch launch(logits);
  with_type_of(logits, [&]<class T>() {
    using A = Accumulate<T>;
    sum_exp(card_data<const T>(logits), card_data<const A>(top), card_data<A>(sums), logits.size(0),
            logits.size(1), launch.stream());
  });
  return sums;
}

void softmax_(at::Tensor& logits, const at::Tensor& top, const at::Tensor& log_sum, double scale) {
  const CardLaunch launch(logits);
  with_type_of(logits, [&]<class T>() {
    using A = Accumulate<T>;
    softmax(card_data<T>(logits), card_data<const A>(top), card_data<const A>(log_sum), scale, logits.size(0),
            logits.size(1), launch.stream());
  });
}

}  // namespace duoka::model::card
