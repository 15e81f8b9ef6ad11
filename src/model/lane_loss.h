// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

#include "core/lanes.h"
#include "core/pack.h"

/// Cross entropy of one row of logits by lanes: what the functions of rows.h with these names compute.
/// `width` numbers at a time: it divides num_columns, and rows are aligned as load() wants them.
namespace duoka::model::lanes {

/// Sum of exp(x - top) over some numbers and the largest of them, in one pass.
/// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867, section 3.
template <class A>
struct SumExp {
  A top, sum;

  C10_DEVICE static SumExp none() { return {-std::numeric_limits<A>::infinity(), A{0}}; }
  template <int width>
  C10_DEVICE void add(const Pack<A, width>& x) {
    A highest = top;
    for (int i = 0; i < width; ++i) highest = x[i] > highest ? x[i] : highest;
    raise(highest);
    for (int i = 0; i < width; ++i) sum += std::exp(x[i] - base(top));
  }
  C10_DEVICE SumExp with(SumExp other) const {
    SumExp both = *this;
    both.raise(other.top > top ? other.top : top);
    both.sum += other.sum * std::exp(other.top - base(both.top));
    return both;
  }

 private:
  C10_DEVICE void raise(A to) {
    sum *= std::exp(top - base(to));
    top = to;
  }
  /// Differences to this are numbers even where nothing finite was seen.
  C10_DEVICE static A base(A top) { return top == -std::numeric_limits<A>::infinity() ? A{0} : top; }
};

template <int width, class T, class Lanes>
C10_DEVICE SumExp<Accumulate<T>> sum_exp(const Lanes& lanes, const T* logits, int64_t num_columns) {
  using Sum = SumExp<Accumulate<T>>;
  return lanes.fold(
      num_columns / width, Sum::none(),
      [&](Sum& own, int64_t p) { own.add(load<width>(logits + p * width)); },
      [](const Sum& a, const Sum& b) { return a.with(b); });
}

/// logits = scale * exp((logits - top) - log_sum), but `at_target` in column `target` where that is one of
/// them.
template <int width, class T, class Lanes>
C10_DEVICE void softmax(const Lanes& lanes, T* logits, int64_t num_columns, Accumulate<T> top,
                        Accumulate<T> log_sum, Accumulate<T> scale, int64_t target = -1,
                        Accumulate<T> at_target = 0) {
  lanes.each(num_columns / width, [&](int64_t p) {
    auto x = load<width>(logits + p * width);
    for (int i = 0; i < width; ++i)
      x[i] = p * width + i == target ? at_target : scale * std::exp((x[i] - top) - log_sum);
    store<width>(logits + p * width, x);
  });
}

/// -> the log of the target's probability. As (x - top) - log(sum): top + log(sum) would lose the digits of
/// the logarithm to those of top.
template <int width, class T, class Lanes>
C10_DEVICE Accumulate<T> cross_entropy(const Lanes& lanes, const T* logits, int64_t num_columns,
                                       int64_t target) {
  const auto all = sum_exp<width>(lanes, logits, num_columns);
  return (static_cast<Accumulate<T>>(logits[target]) - all.top) - std::log(all.sum);
}

/// The same, and puts scale * (softmax(logits) - onehot(target)) in the place of the logits.
template <int width, class T, class Lanes>
C10_DEVICE Accumulate<T> cross_entropy_backward(const Lanes& lanes, T* logits, int64_t num_columns,
                                                int64_t target, Accumulate<T> scale) {
  using A = Accumulate<T>;
  const A at_target = static_cast<A>(logits[target]);  // read by every lane before the fold, written after it
  const auto all = sum_exp<width>(lanes, logits, num_columns);
  const A log_sum = std::log(all.sum), log_p = (at_target - all.top) - log_sum;
  softmax<width>(lanes, logits, num_columns, all.top, log_sum, scale, target,
                 scale * std::expm1(log_p));  // p - 1, also where p is almost 1
  return log_p;
}

/// The largest logit, and the sum of exp(logit - top) for a `top` that is known.
template <int width, class T, class Lanes>
C10_DEVICE Accumulate<T> largest(const Lanes& lanes, const T* logits, int64_t num_columns) {
  using A = Accumulate<T>;
  const auto higher = [](A a, A b) { return a > b ? a : b; };
  return lanes.fold(
      num_columns / width, -std::numeric_limits<A>::infinity(),
      [&](A& own, int64_t p) {
        const auto x = load<width>(logits + p * width);
        for (int i = 0; i < width; ++i) own = higher(x[i], own);
      },
      higher);
}

template <int width, class T, class Lanes>
C10_DEVICE Accumulate<T> sum_exp_from(const Lanes& lanes, const T* logits, int64_t num_columns,
                                      Accumulate<T> top) {
  using A = Accumulate<T>;
  return lanes.fold(
      num_columns / width, A{0},
      [&](A& own, int64_t p) {
        const auto x = load<width>(logits + p * width);
        for (int i = 0; i < width; ++i) own += std::exp(x[i] - top);
      },
      [](A a, A b) { return a + b; });
}

}  // namespace duoka::model::lanes
