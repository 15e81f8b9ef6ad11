// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "duoka/core/layer.h"

namespace duoka::parallel {

/// How one micro-batch goes along a chain and back. Stages as in GradientBuckets.
struct WalkOptions {
  bool recompute = false;
  /// Lowest stage whose backward runs; layers below save nothing and are not walked back.
  int64_t lowest_stage = 0;
};

/// Called after the backward of each stage.
using AfterStage = std::function<void(int64_t stage)>;

/// Forward and backward of one stream; adds the gradient of scale * loss into trainable parameters.
/// Returns the sum of the loss over the trained tokens.
double walk_forward_backward(Chain& chain, const Stream& stream, double scale, const WalkOptions& options,
                             const AfterStage& after_stage);

/// Forward only; nothing is kept. Returns the sum of the loss over the trained tokens.
double walk_forward(Chain& chain, const Stream& stream);

}  // namespace duoka::parallel
