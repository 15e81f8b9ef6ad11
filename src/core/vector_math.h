// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace duoka {

/// e^x in a form the compiler can vectorise; relative error below 1.5e-7, x clamped to ±87.3 (where f32
/// ends). e^x = 2^n e^r with n = round(x / ln 2), so |r| <= ln(2) / 2, and a polynomial of degree 7 for e^r,
/// its coefficients those of Cephes' expf (Moshier, netlib.org/cephes).
[[gnu::always_inline]] inline float vector_exp(float x) {
  constexpr float limit = 87.3F;
  x = x < -limit ? -limit : x;
  x = x > limit ? limit : x;
  constexpr float rounding = 12582912.0F;  // 1.5 * 2^23: adding it leaves no bits for a fraction
  const float n = (x * 1.44269504F + rounding) - rounding;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;  // ln 2 in two parts
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}
[[gnu::always_inline]] inline double vector_exp(double x) { return std::exp(x); }

/// 1 / (1 + e^-x)
template <class A>
[[gnu::always_inline]] inline A sigmoid(A x) {
  return A{1} / (A{1} + vector_exp(-x));
}

}  // namespace duoka
