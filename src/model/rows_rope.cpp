// SPDX-License-Identifier: Apache-2.0
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/vector_loop.h"
#include "model/rows.h"

namespace duoka::model::rows {

template <class T, class A>
DUOKA_VECTOR_CLONES void rotate(T* x, const A* cos, const A* sin, int64_t num_heads, int64_t head_dim,
                                int64_t half, bool inverse) {
  const A sign = inverse ? A{-1} : A{1};
  for (int64_t h = 0; h < num_heads; ++h) {
    T* const first = x + h * head_dim;
    T* const second = first + half;
    for (int64_t i = 0; i < half; ++i) {
      const A a = static_cast<A>(first[i]), b = static_cast<A>(second[i]), s = sign * sin[i];
      first[i] = static_cast<T>(a * cos[i] - b * s);
      second[i] = static_cast<T>(b * cos[i] + a * s);
    }
  }
}

template void rotate(float*, const float*, const float*, int64_t, int64_t, int64_t, bool);
template void rotate(double*, const double*, const double*, int64_t, int64_t, int64_t, bool);
template void rotate(c10::BFloat16*, const float*, const float*, int64_t, int64_t, int64_t, bool);
template void rotate(c10::Half*, const float*, const float*, int64_t, int64_t, int64_t, bool);

}  // namespace duoka::model::rows
