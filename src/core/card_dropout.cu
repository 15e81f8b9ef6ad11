// SPDX-License-Identifier: Apache-2.0
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/card_dropout_kernel.h"
#include "core/card_lanes.cuh"
#include "core/lane_dropout.h"

namespace duoka::card {

namespace {

constexpr int num_lanes = 128;

/// The segment that a row is in: the last one that starts at or before it.
__device__ int64_t segment_of(int64_t row, const int32_t* segments, int64_t num_segments) {
  int64_t low = 0, high = num_segments;  // segments[low] <= row < segments[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (segments[middle] <= row ? low : high) = middle;
  }
  return low;
}

template <class T>
__global__ void __launch_bounds__(num_lanes)
    drop_rows_kernel(const T* x, T* y, int64_t num_rows, int64_t first, int64_t count, DropoutRows rows) {
  for_rows<num_lanes>(num_rows, [&](const auto& block, int64_t row) {
    const int64_t segment = segment_of(row, rows.segments, rows.num_segments);
    const DropoutToken token{rows.site_key, static_cast<uint64_t>(rows.segment_keys[segment]),
                             static_cast<uint32_t>(rows.positions[row])};
    lanes::drop_row(block, x + row * count, y + row * count, first, count, token, rows.threshold,
                    static_cast<Accumulate<T>>(rows.scale));
  });
}

}  // namespace

template <class T>
void drop_rows(const T* x, T* y, int64_t num_rows, int64_t first, int64_t count, const DropoutRows& rows,
               CudaStream stream) {
  if (num_rows == 0) return;
  drop_rows_kernel<<<num_blocks(num_rows), num_lanes, 0, stream>>>(x, y, num_rows, first, count, rows);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

#define DUOKA_INSTANTIATE(T) \
  template void drop_rows(const T*, T*, int64_t, int64_t, int64_t, const DropoutRows&, CudaStream);
DUOKA_INSTANTIATE(float)
DUOKA_INSTANTIATE(double)
DUOKA_INSTANTIATE(c10::BFloat16)
DUOKA_INSTANTIATE(c10::Half)
#undef DUOKA_INSTANTIATE

}  // namespace duoka::card
