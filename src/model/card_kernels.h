// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/cuda_stream.h"
#include "core/vector_loop.h"

/// Launches of the kernels that do on a card what the loops of rows.h do on the CPU, over rows that lie end
/// to end. They return before the work is done. Pointers are the card's. Each is instantiated for float,
/// double, BFloat16 and Half, and computes in f32 (double for double). Bodies: lane_*.h.
namespace duoka::model::card {

/// x, y [n, D], w [D], rstd [n].
template <class T>
void rms_norm(const T* x, const Accumulate<T>* w, T* y, Accumulate<T>* rstd, int64_t num_rows,
              int64_t num_columns, double eps, CudaStream stream);
template <class T>
void rms_norm_backward(const T* dy, const T* x, const Accumulate<T>* rstd, const Accumulate<T>* w, T* dx,
                       int64_t num_rows, int64_t num_columns, CudaStream stream);

/// Rows that are summed by one thread in the gradient of the weights.
inline constexpr int64_t dw_rows = 64;
/// partial [ceil(n / dw_rows), D]: what each dw_rows rows add to the gradient of the weights.
template <class T>
void rms_norm_dw(const T* dy, const T* x, const Accumulate<T>* rstd, Accumulate<T>* partial, int64_t num_rows,
                 int64_t num_columns, CudaStream stream);

/// Where the numbers of x [N, H, d] lie.
struct Heads {
  int64_t num_tokens, num_heads, token_stride, head_stride;
};
/// cos, sin [N, half].
template <class T>
void rotate(T* x, const Heads& heads, const Accumulate<T>* cos, const Accumulate<T>* sin, int64_t half,
            bool inverse, CudaStream stream);

/// Act: lanes::Silu or lanes::GeluTanh.
template <class Act, class T>
void gated(const T* gate, const T* up, T* y, int64_t count, CudaStream stream);
template <class Act, class T>
void gated_backward(const T* dy, T* gate, T* up, int64_t count, CudaStream stream);

/// logits [n, V], targets [n], losses [n]. A target outside [0, V) fails an assertion on the card.
template <class T>
void cross_entropy(const T* logits, const int64_t* targets, double* losses, int64_t num_rows,
                   int64_t num_columns, CudaStream stream);
template <class T>
void cross_entropy_backward(T* logits, const int64_t* targets, double* losses, double scale, int64_t num_rows,
                            int64_t num_columns, CudaStream stream);

/// top, sums, log_sums [n].
template <class T>
void largest(const T* logits, Accumulate<T>* top, int64_t num_rows, int64_t num_columns, CudaStream stream);
template <class T>
void sum_exp(const T* logits, const Accumulate<T>* top, Accumulate<T>* sums, int64_t num_rows,
             int64_t num_columns, CudaStream stream);
template <class T>
void softmax(T* logits, const Accumulate<T>* top, const Accumulate<T>* log_sums, double scale,
             int64_t num_rows, int64_t num_columns, CudaStream stream);

}  // namespace duoka::model::card
