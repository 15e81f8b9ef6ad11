// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "duoka/model/mlp.h"

/// Loops over the numbers of one row (or some), for the CPU: what several tensor operations would take
/// several passes over memory for. Each is instantiated for float, double, BFloat16 and Half, and computes in
/// f32 (double for double).
namespace duoka::model::rows {

/// y = x * rstd * w over D columns, rstd = 1 / sqrt(mean(x^2) + eps), which is returned. w: D numbers of the
/// type computed in.
template <class T, class A>
A rms_norm(const T* x, const A* w, T* y, int64_t num_columns, double eps);

/// dx of rms_norm() given its rstd; adds x * rstd * dy into dw unless that is null.
template <class T, class A>
void rms_norm_backward(const T* dy, const T* x, A rstd, const A* w, T* dx, A* dw, int64_t num_columns);

/// Turns pairs (x[i], x[i + half]), i in [0, half), of `num_heads` heads that lie `head_dim` apart.
template <class T, class A>
void rotate(T* x, const A* cos, const A* sin, int64_t num_heads, int64_t head_dim, int64_t half,
            bool inverse);

/// y = act(gate) * up.
template <class T>
void gated(Activation act, const T* gate, const T* up, T* y, int64_t count);

/// Given dy of gated(), puts the gradients in the place of gate and up.
template <class T>
void gated_backward(Activation act, const T* dy, T* gate, T* up, int64_t count);

/// Cross entropy of one row of logits: returns log-sum-exp(logits) - logits[target].
template <class T>
double cross_entropy(const T* logits, int64_t num_columns, int64_t target);

/// The same, and puts scale * (softmax(logits) - onehot(target)) in the place of the logits.
template <class T>
double cross_entropy_backward(T* logits, int64_t num_columns, int64_t target, double scale);

/// The parts of it, for a row whose columns several ranks have: the largest logit, the sum of
/// exp(logit - top), and scale * exp((logit - top) - log_sum) in the place of the logits.
template <class T, class A>
A largest(const T* logits, int64_t num_columns);
template <class T, class A>
A sum_exp(const T* logits, int64_t num_columns, A top);
template <class T, class A>
void softmax(T* logits, int64_t num_columns, A top, A log_sum, A scale);

}  // namespace duoka::model::rows
