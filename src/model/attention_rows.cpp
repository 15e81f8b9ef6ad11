// SPDX-License-Identifier: Apache-2.0
#include "model/attention_rows.h"

#include <algorithm>
#include <limits>

#include <c10/util/Half.h>

#include "core/vector_math.h"

namespace duoka::model::rows {

template <class T, class P>
DUOKA_VECTOR_CLONES void pack(const HeadRows<const T>& x, int64_t num_rows, int64_t pair, P* out) {
  const int64_t d = x.head_dim, filled = x.num_tokens * x.group;
  const auto row = [&](int64_t r) { return x.row(r / x.group, r % x.group); };
  if (pair == 1)
    for (int64_t r = 0; r < filled; ++r)
      for (int64_t c = 0; c < d; ++c) out[r * d + c] = static_cast<P>(row(r)[c]);
  else
    for (int64_t r = 0; r + 1 < filled; r += 2) {
      const T *even = row(r), *odd = row(r + 1);
      for (int64_t c = 0; c < d; ++c) {
        out[r * d + c * 2] = static_cast<P>(even[c]);
        out[r * d + c * 2 + 1] = static_cast<P>(odd[c]);
      }
    }
  const bool has_single = pair == 2 && filled % 2 == 1;
  std::fill(out + (filled - has_single) * d, out + num_rows * d, P{0});
  if (has_single)
    for (int64_t c = 0; c < d; ++c) out[(filled - 1) * d + c * 2] = static_cast<P>(row(filled - 1)[c]);
}

template <class T, class P>
DUOKA_VECTOR_CLONES void pack_turned(const HeadRows<const T>& x, int64_t num_rows, int64_t pair,
                                     int64_t stride, P* out) {
  const int64_t d = x.head_dim, filled = x.num_tokens * x.group;
  int64_t r = 0;
  for (int64_t token = 0; token < x.num_tokens; ++token)
    for (int64_t head = 0; head < x.group; ++head, ++r) {
      const T* from = x.row(token, head);
      P* to = out + r * pair;
      if (pair == 1)
        for (int64_t c = 0; c < d; ++c) to[c * stride] = static_cast<P>(from[c]);
      else
        for (int64_t c = 0; c < d; c += 2) {
          to[c * stride] = static_cast<P>(from[c]);
          to[c * stride + 1] = static_cast<P>(from[c + 1]);
        }
    }
  for (int64_t c = 0; c < d; c += pair)
    std::fill(out + c * stride + filled * pair, out + c * stride + num_rows * pair, P{0});
}

template <class T, class A>
DUOKA_VECTOR_CLONES void unpack_turned(const A* turned, int64_t stride, const A* factor,
                                       const HeadRows<T>& x) {
  int64_t r = 0;
  for (int64_t token = 0; token < x.num_tokens; ++token)
    for (int64_t head = 0; head < x.group; ++head, ++r) {
      T* to = x.row(token, head);
      for (int64_t c = 0; c < x.head_dim; ++c) to[c] = static_cast<T>(turned[c * stride + r] * factor[r]);
    }
}

template <class T, class A>
DUOKA_VECTOR_CLONES void dots(const HeadRows<const T>& x, const HeadRows<const T>& y, A* sums) {
  int64_t r = 0;
  for (int64_t token = 0; token < x.num_tokens; ++token)
    for (int64_t head = 0; head < x.group; ++head, ++r) {
      const T *a = x.row(token, head), *b = y.row(token, head);
      sums[r] = sum_of<A>(x.head_dim, [&](int64_t c) { return static_cast<A>(a[c]) * static_cast<A>(b[c]); });
    }
}

namespace {

/// e^(scale * score - top), 0 for a score of -inf.
template <class A>
[[gnu::always_inline]] inline A weight_of(A score, A scale, A top) {
  constexpr A none = -std::numeric_limits<A>::infinity();
  const A weight = vector_exp(scale * score - top);
  return score == none ? A{0} : weight;
}

}  // namespace

template <class A, class P>
DUOKA_VECTOR_CLONES void weigh(A* __restrict scores, int64_t num_keys, int64_t num_columns, A scale,
                               A* __restrict top, A* __restrict sum, A* __restrict shrink,
                               P* __restrict weights) {
  constexpr int64_t pair = paired<P>;
  for (int64_t i = 0; i < num_columns; ++i) shrink[i] = top[i];
  for (int64_t key = 0; key < num_keys; ++key) {
    const A* row = scores + key * num_columns;
    for (int64_t i = 0; i < num_columns; ++i) {
      const A score = row[i] * scale;
      top[i] = top[i] < score ? score : top[i];
    }
  }
  for (int64_t i = 0; i < num_columns; ++i) {
    shrink[i] = vector_exp(shrink[i] - top[i]);
    sum[i] *= shrink[i];
  }
  for (int64_t key = 0; key < num_keys; key += pair) {
    const A* row = scores + key * num_columns;
    P* out = weights + key * num_columns;
    for (int64_t i = 0; i < num_columns; ++i)
      for (int64_t p = 0; p < pair; ++p) {
        const A weight = weight_of(row[p * num_columns + i], scale, top[i]);
        sum[i] += weight;
        out[i * pair + p] = static_cast<P>(weight);
      }
  }
}

template <class A>
DUOKA_VECTOR_CLONES void scale_columns(A* x, int64_t num_rows, int64_t num_columns, const A* factor) {
  for (int64_t row = 0; row < num_rows; ++row, x += num_columns)
    for (int64_t i = 0; i < num_columns; ++i) x[i] *= factor[i];
}

template <class A, class P>
DUOKA_VECTOR_CLONES void weigh_backward(const A* __restrict scores, const A* __restrict dweights,
                                        int64_t num_keys, int64_t num_columns, A scale,
                                        const A* __restrict log_sum_exp, const A* __restrict dot,
                                        P* __restrict weights, P* __restrict dscores,
                                        P* __restrict dscores_packed) {
  constexpr int64_t pair = paired<P>;
  for (int64_t key = 0; key < num_keys; ++key) {
    const int64_t at = key * num_columns;
    for (int64_t i = 0; i < num_columns; ++i) {
      const A weight = weight_of(scores[at + i], scale, log_sum_exp[i]);
      weights[at + i] = static_cast<P>(weight);
      dscores[at + i] = static_cast<P>(weight * (dweights[at + i] - dot[i]));
    }
    if (pair == 1 || key % 2 == 0) continue;
    const P *even = dscores + at - num_columns, *odd = dscores + at;
    P* out = dscores_packed + at - num_columns;
    for (int64_t i = 0; i < num_columns; ++i) {
      out[i * 2] = even[i];
      out[i * 2 + 1] = odd[i];
    }
  }
}

#define DUOKA_INSTANTIATE_PACKS(T, P)                                 \
  template void pack(const HeadRows<const T>&, int64_t, int64_t, P*); \
  template void pack_turned(const HeadRows<const T>&, int64_t, int64_t, int64_t, P*);
DUOKA_INSTANTIATE_PACKS(float, float)
DUOKA_INSTANTIATE_PACKS(double, double)
DUOKA_INSTANTIATE_PACKS(c10::Half, float)
DUOKA_INSTANTIATE_PACKS(c10::BFloat16, float)
DUOKA_INSTANTIATE_PACKS(c10::BFloat16, c10::BFloat16)

#define DUOKA_INSTANTIATE_ROWS(T)                                                                       \
  template void unpack_turned(const Accumulate<T>*, int64_t, const Accumulate<T>*, const HeadRows<T>&); \
  template void dots(const HeadRows<const T>&, const HeadRows<const T>&, Accumulate<T>*);
DUOKA_INSTANTIATE_ROWS(float)
DUOKA_INSTANTIATE_ROWS(double)
DUOKA_INSTANTIATE_ROWS(c10::Half)
DUOKA_INSTANTIATE_ROWS(c10::BFloat16)

#define DUOKA_INSTANTIATE_WEIGHTS(A, P)                         \
  template void weigh(A*, int64_t, int64_t, A, A*, A*, A*, P*); \
  template void weigh_backward(const A*, const A*, int64_t, int64_t, A, const A*, const A*, P*, P*, P*);
DUOKA_INSTANTIATE_WEIGHTS(float, float)
DUOKA_INSTANTIATE_WEIGHTS(float, c10::BFloat16)
DUOKA_INSTANTIATE_WEIGHTS(double, double)

template void scale_columns(float*, int64_t, int64_t, const float*);
template void scale_columns(double*, int64_t, int64_t, const double*);

}  // namespace duoka::model::rows
