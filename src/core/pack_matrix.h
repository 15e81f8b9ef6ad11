// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace duoka {

/// out[r, c] = x[r, c] as f32, rows of out `columns` numbers apart. x: rows `stride` numbers apart, of f32,
/// bf16 or f16.
template <class T>
void pack_matrix(const T* x, int64_t stride, int64_t rows, int64_t columns, float* out);

/// out[r, c] = x[c, r] as f32: the same of a matrix that lies turned, its columns `stride` numbers apart.
template <class T>
void pack_turned_matrix(const T* x, int64_t stride, int64_t rows, int64_t columns, float* out);

/// to[r, c] = from[r, c], or += ; `from` has rows of `columns` numbers, `to` of `stride`.
template <class T>
void unpack_matrix(const float* from, int64_t rows, int64_t columns, bool adds, T* to, int64_t stride);

}  // namespace duoka
