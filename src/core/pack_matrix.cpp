// SPDX-License-Identifier: Apache-2.0
#include "core/pack_matrix.h"

#include <algorithm>
#include <cstring>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/vector_loop.h"

namespace duoka {

namespace {

constexpr int64_t lanes = 8;
using Lanes [[gnu::vector_size(lanes * sizeof(float))]] = float;

template <class T>
[[gnu::always_inline]] inline void load(const T* from, Lanes& to) {
  float wide[lanes];
  for (int64_t i = 0; i < lanes; ++i) wide[i] = static_cast<float>(from[i]);
  std::memcpy(&to, wide, sizeof to);
}

/// out[i, j] = x[j, i] for i, j in [0, 8). A round deals row j and row j + 4 out in turn; three turn the
/// square.
template <class T>
[[gnu::always_inline]] inline void turn_square(const T* x, int64_t stride, float* out, int64_t out_stride) {
  Lanes rows[lanes], dealt[lanes];
  for (int64_t j = 0; j < lanes; ++j) load(x + j * stride, rows[j]);
#pragma GCC unroll 3
  for (int round = 0; round < 3; ++round) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < lanes / 2; ++j) {
      dealt[2 * j] = __builtin_shufflevector(rows[j], rows[j + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      dealt[2 * j + 1] = __builtin_shufflevector(rows[j], rows[j + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
#pragma GCC unroll 8
    for (int64_t j = 0; j < lanes; ++j) rows[j] = dealt[j];
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < lanes; ++i) std::memcpy(out + i * out_stride, &rows[i], sizeof rows[i]);
}

}  // namespace

template <class T>
DUOKA_VECTOR_CLONES void pack_matrix(const T* x, int64_t stride, int64_t rows, int64_t columns, float* out) {
  for (int64_t r = 0; r < rows; ++r, x += stride, out += columns)
    for (int64_t c = 0; c < columns; ++c) out[c] = static_cast<float>(x[c]);
}

template <class T>
DUOKA_VECTOR_CLONES void pack_turned_matrix(const T* x, int64_t stride, int64_t rows, int64_t columns,
                                            float* out) {
  for (int64_t r = 0; r < rows; r += lanes)
    for (int64_t c = 0; c < columns; c += lanes) {
      const T* from = x + c * stride + r;
      float* to = out + r * columns + c;
      const int64_t height = std::min(lanes, rows - r), width = std::min(lanes, columns - c);
      if (height == lanes && width == lanes) {
        turn_square(from, stride, to, columns);
        continue;
      }
      for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j) to[i * columns + j] = static_cast<float>(from[j * stride + i]);
    }
}

template <class T>
DUOKA_VECTOR_CLONES void unpack_matrix(const float* from, int64_t rows, int64_t columns, bool adds, T* to,
                                       int64_t stride) {
  for (int64_t r = 0; r < rows; ++r, from += columns, to += stride)
    if (adds)
      for (int64_t c = 0; c < columns; ++c) to[c] = static_cast<T>(static_cast<float>(to[c]) + from[c]);
    else
      for (int64_t c = 0; c < columns; ++c) to[c] = static_cast<T>(from[c]);
}

#define DUOKA_INSTANTIATE(T)                                                     \
  template void pack_matrix(const T*, int64_t, int64_t, int64_t, float*);        \
  template void pack_turned_matrix(const T*, int64_t, int64_t, int64_t, float*); \
  template void unpack_matrix(const float*, int64_t, int64_t, bool, T*, int64_t);
DUOKA_INSTANTIATE(float)
DUOKA_INSTANTIATE(c10::BFloat16)
DUOKA_INSTANTIATE(c10::Half)
#undef DUOKA_INSTANTIATE

}  // namespace duoka
