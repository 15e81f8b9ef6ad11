// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/cuda_stream.h"

namespace duoka::card {

/// What says which units of N rows are dropped: see DropoutToken. Pointers are the card's.
struct DropoutRows {
  uint64_t site_key;
  const int64_t* segment_keys;  ///< [S], bits of the keys.
  const int32_t* segments;      ///< [S + 1], as in Stream.
  int64_t num_segments;
  const int64_t* positions;  ///< [N]
  uint32_t threshold;
  double scale;
};

/// drop_row() for each of N rows x [N, count], which are columns [first, first + count) of a wider tensor.
/// Instantiated for float, double, BFloat16 and Half.
template <class T>
void drop_rows(const T* x, T* y, int64_t num_rows, int64_t first, int64_t count, const DropoutRows& rows,
               CudaStream stream);

}  // namespace duoka::card
