// SPDX-License-Identifier: Apache-2.0
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/card_lanes.cuh"
#include "core/card_width.h"
#include "model/card_kernels.h"
#include "model/lane_loss.h"

namespace duoka::model::card {

namespace {

using namespace duoka::card;

constexpr int num_lanes =
    1024;  // a chunk has hundreds of rows of 10^5 numbers: about one for each multiprocessor

template <int width, class T>
__global__ void __launch_bounds__(num_lanes)
    loss_kernel(const T* logits, const int64_t* targets, double* losses, int64_t num_rows,
                int64_t num_columns) {
  for_rows<num_lanes>(num_rows, [&](const auto& block, int64_t row) {
    const int64_t target = targets[row];
    CUDA_KERNEL_ASSERT(target >= 0 && target < num_columns);
    const auto log_p = lanes::cross_entropy<width>(block, logits + row * num_columns, num_columns, target);
    block.once([&] { losses[row] = -static_cast<double>(log_p); });
  });
}

template <int width, class T>
__global__ void __launch_bounds__(num_lanes)
    backward_kernel(T* logits, const int64_t* targets, double* losses, Accumulate<T> scale, int64_t num_rows,
                    int64_t num_columns) {
  for_rows<num_lanes>(num_rows, [&](const auto& block, int64_t row) {
    const int64_t target = targets[row];
    CUDA_KERNEL_ASSERT(target >= 0 && target < num_columns);
    const auto log_p =
        lanes::cross_entropy_backward<width>(block, logits + row * num_columns, num_columns, target, scale);
    block.once([&] { losses[row] = -static_cast<double>(log_p); });
  });
}

template <int width, class T>
__global__ void __launch_bounds__(num_lanes)
    largest_kernel(const T* logits, Accumulate<T>* top, int64_t num_rows, int64_t num_columns) {
  for_rows<num_lanes>(num_rows, [&](const auto& block, int64_t row) {
    const auto found = lanes::largest<width>(block, logits + row * num_columns, num_columns);
    block.once([&] { top[row] = found; });
  });
}

template <int width, class T>
__global__ void __launch_bounds__(num_lanes)
    sum_exp_kernel(const T* logits, const Accumulate<T>* top, Accumulate<T>* sums, int64_t num_rows,
                   int64_t num_columns) {
  for_rows<num_lanes>(num_rows, [&](const auto& block, int64_t row) {
    const auto sum = lanes::sum_exp_from<width>(block, logits + row * num_columns, num_columns, top[row]);
    block.once([&] { sums[row] = sum; });
  });
}

template <int width, class T>
__global__ void __launch_bounds__(num_lanes)
    softmax_kernel(T* logits, const Accumulate<T>* top, const Accumulate<T>* log_sums, Accumulate<T> scale,
                   int64_t num_rows, int64_t num_columns) {
  for_rows<num_lanes>(num_rows, [&](const auto& block, int64_t row) {
    lanes::softmax<width>(block, logits + row * num_columns, num_columns, top[row], log_sums[row], scale);
  });
}

}  // namespace

template <class T>
void cross_entropy(const T* logits, const int64_t* targets, double* losses, int64_t num_rows,
                   int64_t num_columns, CudaStream stream) {
  if (num_rows == 0) return;
  with_width<T>(num_columns, are_aligned(logits), [&](auto width) {
    loss_kernel<width()>
        <<<num_blocks(num_rows), num_lanes, 0, stream>>>(logits, targets, losses, num_rows, num_columns);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

template <class T>
void cross_entropy_backward(T* logits, const int64_t* targets, double* losses, double scale, int64_t num_rows,
                            int64_t num_columns, CudaStream stream) {
  if (num_rows == 0) return;
  with_width<T>(num_columns, are_aligned(logits), [&](auto width) {
    backward_kernel<width()><<<num_blocks(num_rows), num_lanes, 0, stream>>>(
        logits, targets, losses, static_cast<Accumulate<T>>(scale), num_rows, num_columns);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

template <class T>
void largest(const T* logits, Accumulate<T>* top, int64_t num_rows, int64_t num_columns, CudaStream stream) {
  if (num_rows == 0) return;
  with_width<T>(num_columns, are_aligned(logits), [&](auto width) {
    largest_kernel<width()>
        <<<num_blocks(num_rows), num_lanes, 0, stream>>>(logits, top, num_rows, num_columns);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

template <class T>
void sum_exp(const T* logits, const Accumulate<T>* top, Accumulate<T>* sums, int64_t num_rows,
             int64_t num_columns, CudaStream stream) {
  if (num_rows == 0) return;
  with_width<T>(num_columns, are_aligned(logits), [&](auto width) {
    sum_exp_kernel<width()>
        <<<num_blocks(num_rows), num_lanes, 0, stream>>>(logits, top, sums, num_rows, num_columns);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

template <class T>
void softmax(T* logits, const Accumulate<T>* top, const Accumulate<T>* log_sums, double scale,
             int64_t num_rows, int64_t num_columns, CudaStream stream) {
  if (num_rows == 0) return;
  with_width<T>(num_columns, are_aligned(logits), [&](auto width) {
    softmax_kernel<width()><<<num_blocks(num_rows), num_lanes, 0, stream>>>(
        logits, top, log_sums, static_cast<Accumulate<T>>(scale), num_rows, num_columns);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

#define DUOKA_INSTANTIATE(T)                                                                               \
  template void cross_entropy(const T*, const int64_t*, double*, int64_t, int64_t, CudaStream);            \
  template void cross_entropy_backward(T*, const int64_t*, double*, double, int64_t, int64_t, CudaStream); \
  template void largest(const T*, Accumulate<T>*, int64_t, int64_t, CudaStream);                           \
  template void sum_exp(const T*, const Accumulate<T>*, Accumulate<T>*, int64_t, int64_t, CudaStream);     \
  template void softmax(T*, const Accumulate<T>*, const Accumulate<T>*, double, int64_t, int64_t, CudaStream);
DUOKA_INSTANTIATE(float)
DUOKA_INSTANTIATE(double)
DUOKA_INSTANTIATE(c10::BFloat16)
DUOKA_INSTANTIATE(c10::Half)
#undef DUOKA_INSTANTIATE

}  // namespace duoka::model::card
