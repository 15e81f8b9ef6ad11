// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/parameter.h"

namespace duoka::parallel {

/// A slice of one trainable parameter as the optimizer of this rank sees it. Optimizer, gradient norm and
/// checkpoint are written against slots; none of them knows how the layout cut the tensor.
///
/// The slice is a box in the whole tensor: it begins at `offset` and has the shape of `master`. `master`,
/// `grad` and the per-element entries of `state` have the same shape.
struct Slot {
  Parameter* parameter = nullptr;
  std::vector<int64_t> offset;  ///< Where the slice begins in the whole tensor, one entry a dim.
  /// What the optimizer updates: f32 for half-precision values, else the memory of the value itself.
  at::Tensor master;
  at::Tensor grad;  ///< Gradient of the whole update; valid after Engine::finish_gradients().
  /// The optimizer's, by its names: "exp_avg", "exp_avg_sq", "step" (0-dim), "momentum_buffer".
  std::map<std::string, at::Tensor> state;
  /// True on exactly one of the ranks that hold this very slice. That one counts it in a gradient norm and
  /// writes it to a checkpoint.
  bool is_primary = true;
};

}  // namespace duoka::parallel
