// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/card_lanes.cuh"
#include "core/card_width.h"
#include "model/card_kernels.h"
#include "model/lane_rope.h"

namespace duoka::model::card {

namespace {

using namespace duoka::card;

constexpr int num_lanes = 128;

template <int width, class T>
__global__ void __launch_bounds__(num_lanes) rotate_kernel(T* x, Heads heads, const Accumulate<T>* cos,
                                                           const Accumulate<T>* sin, int half, bool inverse) {
  for_rows<num_lanes>(heads.num_tokens, [&](const auto& block, int64_t token) {
    lanes::rotate<width>(block, x + token * heads.token_stride, cos + token * half, sin + token * half,
                         static_cast<int>(heads.num_heads), heads.head_stride, half, inverse);
  });
}

}  // namespace

template <class T>
void rotate(T* x, const Heads& heads, const Accumulate<T>* cos, const Accumulate<T>* sin, int64_t half,
            bool inverse, CudaStream stream) {
  if (heads.num_tokens == 0) return;
  // What half a head, a head and a token are all multiples of.
  const int64_t common = std::gcd(std::gcd(half, heads.head_stride), heads.token_stride);
  with_width<T>(common, are_aligned(x, cos, sin), [&](auto width) {
    rotate_kernel<width()><<<num_blocks(heads.num_tokens), num_lanes, 0, stream>>>(
        x, heads, cos, sin, static_cast<int>(half), inverse);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

#define DUOKA_INSTANTIATE(T)                                                                        \
  template void rotate(T*, const Heads&, const Accumulate<T>*, const Accumulate<T>*, int64_t, bool, \
                       CudaStream);
DUOKA_INSTANTIATE(float)
DUOKA_INSTANTIATE(double)
DUOKA_INSTANTIATE(c10::BFloat16)
DUOKA_INSTANTIATE(c10::Half)
#undef DUOKA_INSTANTIATE

}  // namespace duoka::model::card
