// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <c10/util/BFloat16.h>

#include "core/vector_loop.h"

/// The loops of attention on the CPU around its products of matrices, see attention_cpu.cpp. Scores lie
/// turned, [keys, columns], a column being a query of one head, so that maxima, sums and factors of a query
/// go along vectors. T: type of the tensors; A: what is computed in (Accumulate<T>); P: what products read,
/// with paired<P> numbers of one column side by side, as the processor's instruction for bf16 wants them.
namespace duoka::model::rows {

template <class P>
inline constexpr int64_t paired = std::is_same_v<P, c10::BFloat16> ? 2 : 1;

/// Vectors of `head_dim` numbers: of each token those of the `group` heads that share a key head.
template <class T>
struct HeadRows {
  T* data;
  int64_t token_stride, head_stride;
  int64_t num_tokens, group, head_dim;

  T* row(int64_t token, int64_t head) const { return data + token * token_stride + head * head_stride; }
};

/// out[(r / pair), c, r % pair] = number c of vector r (of token r / group); vectors up to `num_rows` are
/// zeros.
template <class T, class P>
void pack(const HeadRows<const T>& x, int64_t num_rows, int64_t pair, P* out);

/// out[(c / pair), r, c % pair] = number c of vector r, `stride` vectors apart.
template <class T, class P>
void pack_turned(const HeadRows<const T>& x, int64_t num_rows, int64_t pair, int64_t stride, P* out);

/// x(r)[c] = turned[c, r] * factor[r]; turned: rows of `stride` numbers.
template <class T, class A>
void unpack_turned(const A* turned, int64_t stride, const A* factor, const HeadRows<T>& x);

/// sums[r] = sum over c of x(r)[c] y(r)[c]
template <class T, class A>
void dots(const HeadRows<const T>& x, const HeadRows<const T>& y, A* sums);

/// Scores of further keys -> their weights e^(scale * score - top), packed; -inf gives 0. Moves each column's
/// `top` up to its largest score, and its `sum` of weights along; `shrink` is what earlier weights are to be
/// multiplied with.
template <class A, class P>
void weigh(A* scores, int64_t num_keys, int64_t num_columns, A scale, A* top, A* sum, A* shrink, P* weights);

/// x[c, r] *= factor[r]
template <class A>
void scale_columns(A* x, int64_t num_rows, int64_t num_columns, const A* factor);

/// Scores and gradients of weights -> weights and gradients of scores, in two forms: as they lie and packed.
/// log_sum_exp, dot: a number a column. Where paired<P> is 1 the two forms are one, and dscores_packed is not
/// written. No two of them overlap.
template <class A, class P>
void weigh_backward(const A* scores, const A* dweights, int64_t num_keys, int64_t num_columns, A scale,
                    const A* log_sum_exp, const A* dot, P* weights, P* dscores, P* dscores_packed);

}  // namespace duoka::model::rows
