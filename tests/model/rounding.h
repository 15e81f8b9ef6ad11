// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <map>
#include <string>

#include <ATen/ATen.h>

namespace duoka::model::test {

/// How far the gradients that two ways of computing in a half-precision dtype come to may be apart, as
/// distance() measures it. Each way rounds what it passes on, by at most u, half a unit in the last place. On
/// the longest way, from the embedding to the loss and back, that is in a layer eleven times (norm,
/// projections, rotation, attention, its output, residual; norm, gate and up, their product, down, residual)
/// and as often back, and five times around the head (norm, logits, and the gradients of logits, norm and
/// input). Roundings of different places are independent and add up like the steps of a random walk: to
/// sqrt(2 K) u for the K of one way and the K of the other.
inline double rounding_tolerance(at::ScalarType dtype, int num_layers) {
  const double u = dtype == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
  return std::sqrt(2 * (22 * num_layers + 5)) * u;
}

using Gradients = std::map<std::string, at::Tensor>;

/// |found - wanted| / |wanted|, in the Euclidean norm over all gradients together: a parameter whose own
/// gradient is a small difference of large numbers, as a bias of keys has it, counts as what it is.
inline double distance(const Gradients& found, const Gradients& wanted) {
  if (found.size() != wanted.size()) return INFINITY;
  double apart = 0, size = 0;
  for (const auto& [name, gradient] : wanted) {
    const auto wide = gradient.to(at::kDouble);
    apart += (found.at(name).to(at::kDouble) - wide).square().sum().item<double>();
    size += wide.square().sum().item<double>();
  }
  return std::sqrt(apart / size);
}

}  // namespace duoka::model::test
