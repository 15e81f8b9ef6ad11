// SPDX-License-Identifier: Apache-2.0
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/vector_loop.h"
#include "core/vector_math.h"
#include "model/rows.h"

namespace duoka::model::rows {

namespace {

template <class A>
struct ValueAndSlope {
  A value, slope;
};

struct Silu {
  template <class A>
  [[gnu::always_inline]] static ValueAndSlope<A> at(A x) {
    const A s = sigmoid(x);
    return {x * s, s * (A{1} + x * (A{1} - s))};
  }
};

// x/2 (1 + tanh u) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3)
struct GeluTanh {
  template <class A>
  [[gnu::always_inline]] static ValueAndSlope<A> at(A x) {
    constexpr A twice = static_cast<A>(2 * 0.79788456080286535588), cubic = static_cast<A>(0.044715);
    const A s = sigmoid(twice * (x + cubic * x * x * x));
    return {x * s, s + x * s * (A{1} - s) * twice * (A{1} + A{3} * cubic * x * x)};
  }
};

template <class Act, class T>
DUOKA_VECTOR_CLONES void forward(const T* gate, const T* up, T* y, int64_t count) {
  using A = Accumulate<T>;
  for (int64_t i = 0; i < count; ++i)
    y[i] = static_cast<T>(Act::at(static_cast<A>(gate[i])).value * static_cast<A>(up[i]));
}

template <class Act, class T>
DUOKA_VECTOR_CLONES void backward(const T* dy, T* gate, T* up, int64_t count) {
  using A = Accumulate<T>;
  for (int64_t i = 0; i < count; ++i) {
    const auto act = Act::at(static_cast<A>(gate[i]));
    const A d = static_cast<A>(dy[i]);
    gate[i] = static_cast<T>(d * static_cast<A>(up[i]) * act.slope);
    up[i] = static_cast<T>(d * act.value);
  }
}

}  // namespace

template <class T>
void gated(Activation act, const T* gate, const T* up, T* y, int64_t count) {
  act == Activation::silu ? forward<Silu>(gate, up, y, count) : forward<GeluTanh>(gate, up, y, count);
}

template <class T>
void gated_backward(Activation act, const T* dy, T* gate, T* up, int64_t count) {
  act == Activation::silu ? backward<Silu>(dy, gate, up, count) : backward<GeluTanh>(dy, gate, up, count);
}

#define DUOKA_INSTANTIATE(T)                                        \
  template void gated(Activation, const T*, const T*, T*, int64_t); \
  template void gated_backward(Activation, const T*, T*, T*, int64_t);
DUOKA_INSTANTIATE(float)
DUOKA_INSTANTIATE(double)
DUOKA_INSTANTIATE(c10::BFloat16)
DUOKA_INSTANTIATE(c10::Half)
#undef DUOKA_INSTANTIATE

}  // namespace duoka::model::rows
