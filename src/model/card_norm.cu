// SPDX-License-Identifier: Apache-2.0
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/card_lanes.cuh"
#include "core/card_width.h"
#include "model/card_kernels.h"
#include "model/lane_norm.h"

namespace duoka::model::card {

namespace {

using namespace duoka::card;

// Heads are rows of about 128 numbers, and there are many of them; hidden states are thousands.
constexpr int few_lanes = 32, many_lanes = 256;

/// Calls body(Width, number of lanes as a Width).
template <class T, class Body>
void with_shape(int64_t num_columns, bool is_aligned, Body body) {
  with_width<T>(num_columns, is_aligned, [&](auto width) {
    if (num_columns / width() <= 4 * few_lanes)
      body(width, Width<few_lanes>());
    else
      body(width, Width<many_lanes>());
  });
}

template <int width, int num_lanes, class T>
__global__ void __launch_bounds__(num_lanes)
    forward(const T* x, const Accumulate<T>* w, T* y, Accumulate<T>* rstd, int64_t num_rows,
            int64_t num_columns, Accumulate<T> eps) {
  for_rows<num_lanes>(num_rows, [&](const auto& block, int64_t row) {
    const int64_t first = row * num_columns;
    const auto scale = lanes::rms_norm<width>(block, x + first, w, y + first, num_columns, eps);
    block.once([&] { rstd[row] = scale; });
  });
}

template <int width, int num_lanes, class T>
__global__ void __launch_bounds__(num_lanes)
    backward(const T* dy, const T* x, const Accumulate<T>* rstd, const Accumulate<T>* w, T* dx,
             int64_t num_rows, int64_t num_columns) {
  for_rows<num_lanes>(num_rows, [&](const auto& block, int64_t row) {
    const int64_t first = row * num_columns;
    lanes::rms_norm_backward<width>(block, dy + first, x + first, rstd[row], w, dx + first, num_columns);
  });
}

constexpr int dw_threads = 128;

/// Along x of the grid go columns, along y parts of the rows.
template <int width, class T>
__global__ void __launch_bounds__(dw_threads)
    weight_gradient(const T* dy, const T* x, const Accumulate<T>* rstd, Accumulate<T>* partial,
                    int64_t num_rows, int64_t num_columns, int64_t num_parts) {
  const int64_t column = (int64_t{blockIdx.x} * dw_threads + threadIdx.x) * width;
  if (column >= num_columns) return;
  for (int64_t part = blockIdx.y; part < num_parts; part += gridDim.y) {
    const int64_t begin = part * dw_rows, end = begin + dw_rows < num_rows ? begin + dw_rows : num_rows;
    store<width>(partial + part * num_columns + column,
                 lanes::rms_norm_dw<width>(dy, x, rstd, num_columns, begin, end, column));
  }
}

}  // namespace

template <class T>
void rms_norm(const T* x, const Accumulate<T>* w, T* y, Accumulate<T>* rstd, int64_t num_rows,
              int64_t num_columns, double eps, CudaStream stream) {
  if (num_rows == 0) return;
  with_shape<T>(num_columns, are_aligned(x, w, y), [&](auto width, auto num_lanes) {
    forward<width(), num_lanes()><<<num_blocks(num_rows), num_lanes(), 0, stream>>>(
        x, w, y, rstd, num_rows, num_columns, static_cast<Accumulate<T>>(eps));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

template <class T>
void rms_norm_backward(const T* dy, const T* x, const Accumulate<T>* rstd, const Accumulate<T>* w, T* dx,
                       int64_t num_rows, int64_t num_columns, CudaStream stream) {
  if (num_rows == 0) return;
  with_shape<T>(num_columns, are_aligned(dy, x, w, dx), [&](auto width, auto num_lanes) {
    backward<width(), num_lanes()>
        <<<num_blocks(num_rows), num_lanes(), 0, stream>>>(dy, x, rstd, w, dx, num_rows, num_columns);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

template <class T>
void rms_norm_dw(const T* dy, const T* x, const Accumulate<T>* rstd, Accumulate<T>* partial, int64_t num_rows,
                 int64_t num_columns, CudaStream stream) {
  if (num_rows == 0) return;
  constexpr int64_t most_parts = 65535;  // what the grid allows along y
  const int64_t num_parts = (num_rows + dw_rows - 1) / dw_rows;
  with_width<T>(num_columns, are_aligned(dy, x, partial), [&](auto width) {
    constexpr int64_t columns = dw_threads * width();
    const dim3 grid(static_cast<unsigned>((num_columns + columns - 1) / columns),
                    static_cast<unsigned>(std::min(num_parts, most_parts)));
    weight_gradient<width()>
        <<<grid, dw_threads, 0, stream>>>(dy, x, rstd, partial, num_rows, num_columns, num_parts);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

#define DUOKA_INSTANTIATE(T)                                                                            \
  template void rms_norm(const T*, const Accumulate<T>*, T*, Accumulate<T>*, int64_t, int64_t, double,  \
                         CudaStream);                                                                   \
  template void rms_norm_backward(const T*, const T*, const Accumulate<T>*, const Accumulate<T>*, T*,   \
                                  int64_t, int64_t, CudaStream);                                        \
  template void rms_norm_dw(const T*, const T*, const Accumulate<T>*, Accumulate<T>*, int64_t, int64_t, \
                            CudaStream);
DUOKA_INSTANTIATE(float)
DUOKA_INSTANTIATE(double)
DUOKA_INSTANTIATE(c10::BFloat16)
DUOKA_INSTANTIATE(c10::Half)
#undef DUOKA_INSTANTIATE

}  // namespace duoka::model::card
