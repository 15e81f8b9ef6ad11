// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/vector_loop.h"
#include "model/rows.h"

namespace duoka::model::rows {

template <class T, class A>
DUOKA_VECTOR_CLONES A rms_norm(const T* x, const A* w, T* y, int64_t num_columns, double eps) {
  const A sum = sum_of<A>(num_columns, [&](int64_t i) {
    const A value = static_cast<A>(x[i]);
    return value * value;
  });
  const A rstd = A{1} / std::sqrt(sum / static_cast<A>(num_columns) + static_cast<A>(eps));
  for (int64_t i = 0; i < num_columns; ++i) y[i] = static_cast<T>(static_cast<A>(x[i]) * rstd * w[i]);
  return rstd;
}

// With g = w dy and y = w x r, r = (mean(x^2) + eps)^(-1/2):  dx = r (g - x r^2 mean(g x)).
template <class T, class A>
DUOKA_VECTOR_CLONES void rms_norm_backward(const T* dy, const T* x, A rstd, const A* w, T* dx, A* dw,
                                           int64_t num_columns) {
  const A dot =
      sum_of<A>(num_columns, [&](int64_t i) { return static_cast<A>(dy[i]) * w[i] * static_cast<A>(x[i]); });
  const A along = dot / static_cast<A>(num_columns) * rstd * rstd;
  if (dw != nullptr)
    for (int64_t i = 0; i < num_columns; ++i) dw[i] += static_cast<A>(dy[i]) * static_cast<A>(x[i]) * rstd;
  for (int64_t i = 0; i < num_columns; ++i)
    dx[i] = static_cast<T>(rstd * (static_cast<A>(dy[i]) * w[i] - static_cast<A>(x[i]) * along));
}

#define DUOKA_INSTANTIATE(T, A)                                 \
  template A rms_norm(const T*, const A*, T*, int64_t, double); \
  template void rms_norm_backward(const T*, const T*, A, const A*, T*, A*, int64_t);
DUOKA_INSTANTIATE(float, float)
DUOKA_INSTANTIATE(double, double)
DUOKA_INSTANTIATE(c10::BFloat16, float)
DUOKA_INSTANTIATE(c10::Half, float)
#undef DUOKA_INSTANTIATE

}  // namespace duoka::model::rows
