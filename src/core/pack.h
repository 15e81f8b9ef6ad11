// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include <c10/macros/Macros.h>

#include "core/vector_loop.h"

namespace duoka {

/// `width` numbers that lie side by side, in the type that arithmetic is done in.
template <class A, int width>
struct Pack {
  A values[width];

  C10_DEVICE A& operator[](int i) { return values[i]; }
  C10_DEVICE const A& operator[](int i) const { return values[i]; }
};

/// What a thread of a card reads and writes at once at most.
inline constexpr int64_t card_access_bytes = 16;

/// Numbers of T in such an access.
template <class T>
inline constexpr int full_width = static_cast<int>(card_access_bytes / static_cast<int64_t>(sizeof(T)));

namespace detail {

/// As it lies in memory: copied from and to there, since an array of T must not be read as another type. By
/// memcpy, from which the compiler for cards makes many small accesses, so there by the type that is one.
template <class T, int width>
struct alignas(card_access_bytes) RawPack {
  T values[width];
  static_assert(sizeof(T) * width % card_access_bytes == 0);

#ifdef __CUDACC__
  static constexpr int num_accesses = sizeof(T) * width / sizeof(uint4);
  __device__ void read(const T* x) {
    uint4 parts[num_accesses];
    for (int i = 0; i < num_accesses; ++i) parts[i] = reinterpret_cast<const uint4*>(x)[i];
    memcpy(values, parts, sizeof(values));
  }
  __device__ void write(T* x) const {
    uint4 parts[num_accesses];
    memcpy(parts, values, sizeof(values));
    for (int i = 0; i < num_accesses; ++i) reinterpret_cast<uint4*>(x)[i] = parts[i];
  }
#else
  void read(const T* x) { memcpy(values, x, sizeof(values)); }
  void write(T* x) const { memcpy(x, values, sizeof(values)); }
#endif
};

}  // namespace detail

/// width: 1, or numbers that fill accesses; then x is at a multiple of card_access_bytes.
template <int width, class T>
C10_DEVICE inline Pack<Accumulate<T>, width> load(const T* x) {
  using A = Accumulate<T>;
  Pack<A, width> pack;
  if constexpr (width == 1) {
    pack[0] = static_cast<A>(*x);
  } else {
    detail::RawPack<T, width> raw;
    raw.read(x);
    for (int i = 0; i < width; ++i) pack[i] = static_cast<A>(raw.values[i]);
  }
  return pack;
}

template <int width, class T>
C10_DEVICE inline void store(T* x, const Pack<Accumulate<T>, width>& pack) {
  if constexpr (width == 1) {
    *x = static_cast<T>(pack[0]);
  } else {
    detail::RawPack<T, width> raw;
    for (int i = 0; i < width; ++i) raw.values[i] = static_cast<T>(pack[i]);
    raw.write(x);
  }
}

}  // namespace duoka
