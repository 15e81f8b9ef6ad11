// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "core/pack.h"

/// act(gate) * up of `width` numbers and its gradients: what gated() and gated_backward() of rows.h compute.
namespace duoka::model::lanes {

template <class A>
struct ValueAndSlope {
  A value, slope;
};

template <class A>
C10_DEVICE inline A sigmoid(A x) {
  return A{1} / (A{1} + std::exp(-x));
}

struct Silu {
  template <class A>
  C10_DEVICE static ValueAndSlope<A> at(A x) {
    const A s = sigmoid(x);
    return {x * s, s * (A{1} + x * (A{1} - s))};
  }
};

// x/2 (1 + tanh u) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3)
struct GeluTanh {
  template <class A>
  C10_DEVICE static ValueAndSlope<A> at(A x) {
    constexpr A twice = static_cast<A>(2 * 0.79788456080286535588), cubic = static_cast<A>(0.044715);
    const A s = sigmoid(twice * (x + cubic * x * x * x));
    return {x * s, s + x * s * (A{1} - s) * twice * (A{1} + A{3} * cubic * x * x)};
  }
};

template <int width, class Act, class T>
C10_DEVICE void gated(const T* gate, const T* up, T* y) {
  auto values = load<width>(gate);
  const auto ups = load<width>(up);
  for (int i = 0; i < width; ++i) values[i] = Act::at(values[i]).value * ups[i];
  store<width>(y, values);
}

/// The gradients of gate and up take their places.
template <int width, class Act, class T>
C10_DEVICE void gated_backward(const T* dy, T* gate, T* up) {
  const auto d = load<width>(dy);
  auto gates = load<width>(gate), ups = load<width>(up);
  for (int i = 0; i < width; ++i) {
    const auto act = Act::at(gates[i]);
    gates[i] = d[i] * ups[i] * act.slope;
    ups[i] = d[i] * act.value;
  }
  store<width>(gate, gates);
  store<width>(up, ups);
}

}  // namespace duoka::model::lanes
