// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/deferred_products.h"
#include "duoka/core/exact_sum.h"
#include "duoka/core/layer.h"
#include "duoka/core/layer_range.h"
#include "duoka/parallel/layout.h"
#include "parallel/gradient_sums.h"
#include "parallel/pipeline_exchange.h"
#include "parallel/trace.h"
#include "parallel/walk.h"

namespace duoka::parallel {

/// One rank's way through the micro-batches of a pipeline: its list of actions, over the layers it holds.
/// Every rank of a pipeline is given the same micro-batches. All calls are collective over the pipeline.
///
/// backward_input puts the products that make gradients of weights off until backward_weight; the activations
/// they need stay alive so long. What is not such a product (norms, biases, the head, layers of autograd) it
/// computes at once.
class PipelineWalk final {
 public:
  /// `chain`: the layers of layout.layers(), one range after the other, with the objective on the last rank;
  /// StateError when it is not. Both outlive this. walk.lowest_stage: of the layers held here, the lowest
  /// that trains; any larger number when none does.
  PipelineWalk(Chain& chain, Layout& layout, const WalkOptions& walk);

  /// Forward and backward of all; adds the gradient of scale * loss into trainable parameters. Tells `sums`
  /// of a chunk's stages when its last backward is done. Returns the sum of the loss over the trained tokens
  /// on the last rank, 0 on the others.
  ExactSum forward_backward(const std::vector<const Stream*>& streams, double scale, GradientSums& sums);
  /// Forward only; nothing is kept.
  double loss_sum(const std::vector<const Stream*>& streams);

  /// Where actions and transfers are noted from now on; null: nowhere.
  void set_trace(TraceFile* trace);

 private:
  /// What a chunk's forward of a micro-batch leaves until its backward.
  struct Open {
    std::vector<Trace> traces;
    at::Tensor x;  ///< The objective's input.
  };
  void begin(const std::vector<const Stream*>& streams, PipelineLists lists);
  void forward(const PipelineAction& action, const Stream& stream);
  /// Returns the loss where the objective is.
  double backward(const PipelineAction& action, const Stream& stream, double scale);
  void backward_weight(const PipelineAction& action);
  at::Tensor backward_layers(const PipelineAction& action, Open open, at::Tensor dy, const Stream& stream);
  TraceLabels labels(const PipelineAction& action) const;
  LayerRange range(const PipelineAction& action) const { return chunks_[static_cast<size_t>(action.chunk)]; }
  bool has_objective(const PipelineAction& action) const;
  PipelineLists lists(size_t num_micro) const;

  Chain& chain_;
  const Layout& layout_;
  std::vector<LayerRange> chunks_;  // stages of the local chain
  WalkOptions walk_;
  at::TensorOptions options_;  // of what goes from layer to layer
  PipelineExchange exchange_;
  TraceFile* trace_ = nullptr;
  std::map<std::pair<int, int>, Open> open_;  // by chunk and micro-batch
  std::map<std::pair<int, int>, DeferredProducts> weights_;
};

}  // namespace duoka::parallel
