// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "duoka/core/layer_range.h"
#include "duoka/model/config.h"
#include "duoka/parallel/plan.h"

namespace duoka::parallel {

/// What a pipeline must know of a model to share its layers out. Layers are the chain's and, as the last one,
/// its objective.
struct Stack {
  std::vector<double> costs;  ///< Of each layer's arithmetic, in any unit.
  int64_t width = 0;          ///< What goes from layer to layer is [tokens, width].
  /// Names of parameters that the first and the last layer share; where they lie on different ranks, both
  /// hold one.
  std::vector<std::string> tied = {};
};

/// Of a decoder: the embedding (a lookup, no cost), its blocks and its head, by their multiplications a
/// token.
Stack stack_of(const model::ModelConfig& config);

/// Layers of each stage of a pipeline: plan.split, or spread by their costs. Throws ConfigError when there
/// are too few layers or the split does not fit.
std::vector<int64_t> layers_of_stages(const Plan& plan, const Stack& stack);
/// Those of rank `rank` of the pipeline, a range for each of its chunks. Throws likewise.
std::vector<LayerRange> layers_of_rank(const Plan& plan, const Stack& stack, int rank);

}  // namespace duoka::parallel
