// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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

/// As it lies in memory. Copied, since an array of T must not be read as another type.
template <class T, int width>
struct alignas(std::min<int64_t>(card_access_bytes, static_cast<int64_t>(sizeof(T)) * width)) RawPack {
  T values[width];
};

}  // namespace detail

/// x: at an address that is a multiple of the pack's bytes, or of card_access_bytes where it has more.
template <int width, class T>
C10_DEVICE inline Pack<Accumulate<T>, width> load(const T* x) {
  using A = Accumulate<T>;
  Pack<A, width> pack;
  if constexpr (width == 1) {
    pack[0] = static_cast<A>(*x);
  } else {
    using Raw = detail::RawPack<T, width>;
    const void* const from = x;
    Raw raw;
    memcpy(&raw, __builtin_assume_aligned(from, alignof(Raw)), sizeof(Raw));
    for (int i = 0; i < width; ++i) pack[i] = static_cast<A>(raw.values[i]);
  }
  return pack;
}

template <int width, class T>
C10_DEVICE inline void store(T* x, const Pack<Accumulate<T>, width>& pack) {
  if constexpr (width == 1) {
    *x = static_cast<T>(pack[0]);
  } else {
    using Raw = detail::RawPack<T, width>;
    Raw raw;
    for (int i = 0; i < width; ++i) raw.values[i] = static_cast<T>(pack[i]);
    void* const to = x;
    memcpy(__builtin_assume_aligned(to, alignof(Raw)), &raw, sizeof(Raw));
  }
}

}  // namespace duoka
