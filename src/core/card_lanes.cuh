// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <c10/cuda/CUDAException.h>

#include "core/lanes.h"

namespace duoka {

/// Lanes (lanes.h) that are the threads of a block of `num_lanes`.
template <int num_lanes>
class BlockLanes {
  static_assert(num_lanes % warp_lanes == 0 && num_lanes <= warp_lanes * warp_lanes);

 public:
  template <class Visit>
  __device__ void each(int64_t count, Visit visit) const {
    for (int64_t i = threadIdx.x; i < count; i += num_lanes) visit(i);
  }

  template <class State, class Add, class Combine>
  __device__ State fold(int64_t count, State none, Add add, Combine combine) const {
    __shared__ State of_warp[num_lanes / warp_lanes];
    State own = none;
    each(count, [&](int64_t i) { add(own, i); });
    own = met(own, combine);
    const int warp = static_cast<int>(threadIdx.x) / warp_lanes,
              lane = static_cast<int>(threadIdx.x) % warp_lanes;
    if (lane == 0) of_warp[warp] = own;
    __syncthreads();
    own = met(lane < num_lanes / warp_lanes ? of_warp[lane] : none, combine);
    __syncthreads();  // the next fold writes there
    return own;
  }

  template <class Action>
  __device__ void once(Action action) const {
    if (threadIdx.x == 0) action();
  }

 private:
  /// What a warp's states come to, the same bits in each of its lanes: two lanes that meet may round
  /// differently, so all take that of the first.
  template <class State, class Combine>
  static __device__ State met(State own, Combine combine) {
    for (int distance = warp_lanes / 2; distance > 0; distance /= 2)
      own = combine(own,
                    by_words(own, [&](uint32_t word) { return __shfl_xor_sync(all_lanes, word, distance); }));
    return by_words(own, [](uint32_t word) { return __shfl_sync(all_lanes, word, 0); });
  }

  /// Registers are exchanged by words of 32 bits.
  template <class State, class Exchange>
  static __device__ State by_words(State state, Exchange exchange) {
    static_assert(std::is_trivially_copyable_v<State> && sizeof(State) % sizeof(uint32_t) == 0);
    uint32_t words[sizeof(State) / sizeof(uint32_t)];
    memcpy(words, &state, sizeof(State));
    for (uint32_t& word : words) word = exchange(word);
    memcpy(&state, words, sizeof(State));
    return state;
  }

  static constexpr unsigned all_lanes = 0xFFFFFFFF;
};

namespace card {

/// Blocks for this many rows (or other shares of the work), over which a kernel goes in strides of the grid.
inline unsigned num_blocks(int64_t num_shares) {
  constexpr int64_t most = int64_t{1} << 20;
  return static_cast<unsigned>(std::min(num_shares, most));
}

/// visit(lanes, row) for the rows of this block. For use in a kernel with `num_lanes` threads a block.
template <int num_lanes, class Visit>
__device__ void for_rows(int64_t num_rows, Visit visit) {
  for (int64_t row = blockIdx.x; row < num_rows; row += gridDim.x) visit(BlockLanes<num_lanes>(), row);
}

}  // namespace card
}  // namespace duoka
