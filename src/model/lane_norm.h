// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "core/lanes.h"
#include "core/pack.h"

/// RMSNorm of one row by lanes: what rms_norm() and rms_norm_backward() of rows.h compute. `width` numbers at
/// a time: it divides num_columns, and rows are aligned as load() wants them.
namespace duoka::model::lanes {

template <int width, class T, class Lanes>
C10_DEVICE Accumulate<T> rms_norm(const Lanes& lanes, const T* x, const Accumulate<T>* w, T* y,
                                  int64_t num_columns, Accumulate<T> eps) {
  using A = Accumulate<T>;
  const A sum = lanes.fold(
      num_columns / width, A{0},
      [&](A& own, int64_t p) {
        const auto values = load<width>(x + p * width);
        for (int i = 0; i < width; ++i) own += values[i] * values[i];
      },
      [](A a, A b) { return a + b; });
  const A rstd = A{1} / std::sqrt(sum / static_cast<A>(num_columns) + eps);
  lanes.each(num_columns / width, [&](int64_t p) {
    auto values = load<width>(x + p * width);
    const auto factors = load<width>(w + p * width);
    for (int i = 0; i < width; ++i) values[i] = values[i] * rstd * factors[i];
    store<width>(y + p * width, values);
  });
  return rstd;
}

// With g = w dy:  dx = r (g - x r^2 mean(g x)).
template <int width, class T, class Lanes>
C10_DEVICE void rms_norm_backward(const Lanes& lanes, const T* dy, const T* x, Accumulate<T> rstd,
                                  const Accumulate<T>* w, T* dx, int64_t num_columns) {
  using A = Accumulate<T>;
  const A dot = lanes.fold(
      num_columns / width, A{0},
      [&](A& own, int64_t p) {
        const auto d = load<width>(dy + p * width), values = load<width>(x + p * width);
        const auto factors = load<width>(w + p * width);
        for (int i = 0; i < width; ++i) own += d[i] * factors[i] * values[i];
      },
      [](A a, A b) { return a + b; });
  const A along = dot / static_cast<A>(num_columns) * rstd * rstd;
  lanes.each(num_columns / width, [&](int64_t p) {
    auto d = load<width>(dy + p * width);
    const auto values = load<width>(x + p * width), factors = load<width>(w + p * width);
    for (int i = 0; i < width; ++i) d[i] = rstd * (d[i] * factors[i] - values[i] * along);
    store<width>(dx + p * width, d);
  });
}

/// What rows [begin, end) add to the gradients of `width` weights from `column` on.
template <int width, class T>
C10_DEVICE Pack<Accumulate<T>, width> rms_norm_dw(const T* dy, const T* x, const Accumulate<T>* rstd,
                                                  int64_t num_columns, int64_t begin, int64_t end,
                                                  int64_t column) {
  Pack<Accumulate<T>, width> dw{};
  for (int64_t row = begin; row < end; ++row) {
    const auto d = load<width>(dy + row * num_columns + column),
               values = load<width>(x + row * num_columns + column);
    for (int i = 0; i < width; ++i) dw[i] += d[i] * values[i] * rstd[row];
  }
  return dw;
}

}  // namespace duoka::model::lanes
