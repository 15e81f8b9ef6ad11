// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/lanes.h"
#include "core/pack.h"

namespace duoka::model::lanes {

/// Turns pairs (x[i], x[i + half]), i in [0, half), of `num_heads` heads that lie `head_stride` apart, by
/// lanes. `width` divides half and head_stride; x, cos and sin are aligned as load() wants them.
template <int width, class T, class Lanes>
C10_DEVICE void rotate(const Lanes& lanes, T* x, const Accumulate<T>* cos, const Accumulate<T>* sin,
                       int num_heads, int64_t head_stride, int half, bool inverse) {
  using A = Accumulate<T>;
  const A sign = inverse ? A{-1} : A{1};
  const int num_packs = half / width;
  lanes.each(int64_t{num_heads} * num_packs, [&](int64_t item) {
    const int head = static_cast<int>(item) / num_packs, i = static_cast<int>(item) % num_packs * width;
    T* const first = x + head * head_stride + i;
    T* const second = first + half;
    auto a = load<width>(first), b = load<width>(second);
    const auto c = load<width>(cos + i), s = load<width>(sin + i);
    for (int k = 0; k < width; ++k) {
      const A turned = a[k] * c[k] - b[k] * (sign * s[k]);
      b[k] = b[k] * c[k] + a[k] * (sign * s[k]);
      a[k] = turned;
    }
    store<width>(first, a);
    store<width>(second, b);
  });
}

}  // namespace duoka::model::lanes
