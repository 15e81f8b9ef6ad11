// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/vector_loop.h"
#include "core/vector_math.h"
#include "model/rows.h"

namespace duoka::model::rows {

namespace {

template <class A, class T>
[[gnu::always_inline]] inline A maximum(const T* x, int64_t count) {
  // The greatest is the same whatever the order. At 16 lanes or fewer GCC unrolls the loop over them before
  // it looks for vectors, and then finds none in comparisons.
  constexpr int64_t lanes = 64;
  A best[lanes];
  for (A& lane : best) lane = static_cast<A>(x[0]);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const A value = static_cast<A>(x[i + lane]);
      best[lane] = value > best[lane] ? value : best[lane];
    }
  for (; i < count; ++i) best[0] = std::max(best[0], static_cast<A>(x[i]));
  return *std::max_element(best, best + lanes);
}

/// log(softmax(x)) is (x - top) - log_sum. Kept apart: their sum would lose the digits of log_sum to those of
/// top.
template <class A>
struct LogSumExp {
  A top, log_sum;
  A operator()(A x) const { return (x - top) - log_sum; }
};

template <class T>
DUOKA_VECTOR_CLONES LogSumExp<Accumulate<T>> log_sum_exp(const T* x, int64_t count) {
  using A = Accumulate<T>;
  const A top = maximum<A>(x, count);
  return {top, std::log(sum_of<A>(count, [&](int64_t i) { return vector_exp(static_cast<A>(x[i]) - top); }))};
}

}  // namespace

template <class T, class A>
DUOKA_VECTOR_CLONES A largest(const T* logits, int64_t num_columns) {
  return maximum<A>(logits, num_columns);
}

template <class T, class A>
DUOKA_VECTOR_CLONES A sum_exp(const T* logits, int64_t num_columns, A top) {
  return sum_of<A>(num_columns, [&](int64_t i) { return vector_exp(static_cast<A>(logits[i]) - top); });
}

template <class T, class A>
DUOKA_VECTOR_CLONES void softmax(T* logits, int64_t num_columns, A top, A log_sum, A scale) {
  for (int64_t i = 0; i < num_columns; ++i)
    logits[i] = static_cast<T>(scale * vector_exp((static_cast<A>(logits[i]) - top) - log_sum));
}

template <class T>
double cross_entropy(const T* logits, int64_t num_columns, int64_t target) {
  const auto log_softmax = log_sum_exp(logits, num_columns);
  return -static_cast<double>(log_softmax(static_cast<Accumulate<T>>(logits[target])));
}

template <class T>
double cross_entropy_backward(T* logits, int64_t num_columns, int64_t target, double scale) {
  using A = Accumulate<T>;
  const auto log_softmax = log_sum_exp(logits, num_columns);
  const A log_p = log_softmax(static_cast<A>(logits[target]));
  softmax(logits, num_columns, log_softmax.top, log_softmax.log_sum, static_cast<A>(scale));
  logits[target] =
      static_cast<T>(static_cast<A>(scale) * std::expm1(log_p));  // p - 1, also where p is almost 1
  return -static_cast<double>(log_p);
}

#define DUOKA_INSTANTIATE(T)                                            \
  template double cross_entropy(const T*, int64_t, int64_t);            \
  template double cross_entropy_backward(T*, int64_t, int64_t, double); \
  template Accumulate<T> largest(const T*, int64_t);                    \
  template Accumulate<T> sum_exp(const T*, int64_t, Accumulate<T>);     \
  template void softmax(T*, int64_t, Accumulate<T>, Accumulate<T>, Accumulate<T>);
DUOKA_INSTANTIATE(float)
DUOKA_INSTANTIATE(double)
DUOKA_INSTANTIATE(c10::BFloat16)
DUOKA_INSTANTIATE(c10::Half)
#undef DUOKA_INSTANTIATE

}  // namespace duoka::model::rows
