// SPDX-License-Identifier: Apache-2.0
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/card_lanes.cuh"
#include "core/card_width.h"
#include "model/card_kernels.h"
#include "model/lane_gated.h"

namespace duoka::model::card {

namespace {

using namespace duoka::card;

constexpr int num_threads = 256;

/// Calls visit(first) for the packs of this thread.
template <int width, class Visit>
__device__ void for_packs(int64_t count, Visit visit) {
  for (int64_t i = (int64_t{blockIdx.x} * num_threads + threadIdx.x) * width; i < count;
       i += int64_t{gridDim.x} * num_threads * width)
    visit(i);
}

template <int width, class Act, class T>
__global__ void __launch_bounds__(num_threads) forward(const T* gate, const T* up, T* y, int64_t count) {
  for_packs<width>(count, [&](int64_t i) { lanes::gated<width, Act>(gate + i, up + i, y + i); });
}

template <int width, class Act, class T>
__global__ void __launch_bounds__(num_threads) backward(const T* dy, T* gate, T* up, int64_t count) {
  for_packs<width>(count, [&](int64_t i) { lanes::gated_backward<width, Act>(dy + i, gate + i, up + i); });
}

unsigned blocks_for(int64_t count, int width) {
  return num_blocks((count / width + num_threads - 1) / num_threads);
}

}  // namespace

template <class Act, class T>
void gated(const T* gate, const T* up, T* y, int64_t count, CudaStream stream) {
  if (count == 0) return;
  with_width<T>(count, are_aligned(gate, up, y), [&](auto width) {
    forward<width(), Act><<<blocks_for(count, width()), num_threads, 0, stream>>>(gate, up, y, count);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

template <class Act, class T>
void gated_backward(const T* dy, T* gate, T* up, int64_t count, CudaStream stream) {
  if (count == 0) return;
  with_width<T>(count, are_aligned(dy, gate, up), [&](auto width) {
    backward<width(), Act><<<blocks_for(count, width()), num_threads, 0, stream>>>(dy, gate, up, count);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

#define DUOKA_INSTANTIATE(Act, T)                                        \
  template void gated<Act>(const T*, const T*, T*, int64_t, CudaStream); \
  template void gated_backward<Act>(const T*, T*, T*, int64_t, CudaStream);
#define DUOKA_INSTANTIATE_BOTH(T)   \
  DUOKA_INSTANTIATE(lanes::Silu, T) \
  DUOKA_INSTANTIATE(lanes::GeluTanh, T)
DUOKA_INSTANTIATE_BOTH(float)
DUOKA_INSTANTIATE_BOTH(double)
DUOKA_INSTANTIATE_BOTH(c10::BFloat16)
DUOKA_INSTANTIATE_BOTH(c10::Half)
#undef DUOKA_INSTANTIATE_BOTH
#undef DUOKA_INSTANTIATE

}  // namespace duoka::model::card
