// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
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
#include "parallel/stage_work.h"
#include "parallel/trace.h"
#include "parallel/walk.h"

namespace duoka::parallel {

/// Where a rank's walk back of a pipeline ends. It holds chunks of its chain, given with the objective, one
/// for each of its pieces: numbers place, place + num_places, … of the pipeline's.
struct PipelineEnd {
  std::vector<LayerRange> chunks;
  int place = 0, num_places = 1;

  int piece_of(size_t chunk) const { return static_cast<int>(chunk) * num_places + place; }
  /// The piece with `stage` of the chain; the largest number where none has it.
  int piece_with(int64_t stage) const;
  /// The lowest stage of the chain that is walked back, where lowest_piece is the pipeline's first with
  /// something to train, and lowest_trained the chain's first stage with that: in that piece from there on,
  /// in those above from their beginning. The largest number where nothing is.
  int64_t lowest_stage(int lowest_piece, int64_t lowest_trained) const;
};

/// One rank's way through the micro-batches of a pipeline: its list of actions, over the layers it holds.
/// Every rank of a pipeline is given the same micro-batches. All calls are collective over the pipeline, and
/// where parameters are sharded or gradients are in each micro-batch over the shard group too: as all of its
/// ranks follow the same list, their gathers and sums agree. A rank that has fewer micro-batches is given
/// nulls for the others.
///
/// backward_input puts the products that make gradients of weights off until backward_weight; the activations
/// they need stay alive so long. What is not such a product (norms, biases, the head, layers of autograd) it
/// computes at once. Stages below the lowest that trains are not walked back, and no gradient is sent to
/// them.
class PipelineWalk final {
 public:
  /// Of each chunk, in order.
  using Sums = std::span<const std::unique_ptr<GradientSums>>;

  /// `chain`: the layers of layout.layers(), one range after the other, with the objective on the last rank;
  /// StateError when it is not. Both outlive this. Something trains on some rank. walk.lowest_stage is not
  /// read. Collective over layout.world().
  PipelineWalk(Chain& chain, Layout& layout, const WalkOptions& walk);

  /// Stages of the chain held here that each chunk has, the objective as one.
  std::vector<LayerRange> stages() const;

  /// Forward and backward of all; adds the gradient of scale * loss into trainable parameters. Each chunk's
  /// sums have one step for each micro-batch where each step talks, else one for all; they are told of a
  /// stage when it has done its part of it. Returns the sum of the loss over the trained tokens on the last
  /// rank, 0 on the others.
  ExactSum forward_backward(const std::vector<const Stream*>& streams, double scale, Sums sums);
  /// Forward only; nothing is kept.
  double loss_sum(const std::vector<const Stream*>& streams);
  /// Where actions and transfers are noted from now on; null: nowhere.
  void set_trace(TraceFile* trace);

 private:
  using Actions = std::vector<PipelineAction>;
  /// What a chunk's forward of a micro-batch leaves until its backward.
  struct Open {
    std::vector<Trace> traces;
    at::Tensor x;  ///< The objective's input.
  };
  int find_lowest_stage();
  Actions begin(const std::vector<const Stream*>& streams, PipelineLists lists);
  StageWork stage_work(const Actions& actions, size_t place, GradientSums* sums, bool is_evaluation = false);
  /// Stages of the chain held here where an action begins and ends its way; begins at -1: it walks none.
  int64_t first_walked(const PipelineAction& action) const;
  void forward(const PipelineAction& action, const Stream& stream, StageWork& work);
  /// Returns the loss where the objective is.
  double backward(const PipelineAction& action, const Stream& stream, double scale, StageWork& work);
  void backward_weight(const PipelineAction& action);
  /// What the others of the shard group do with a micro-batch that this rank has not.
  void pass(const PipelineAction& action, StageWork& work, bool is_evaluation = false);
  at::Tensor backward_layers(const PipelineAction& action, Open open, at::Tensor dy, const Stream& stream,
                             StageWork& work);
  TraceLabels labels(const PipelineAction& action) const {
    return {.micro = action.micro, .stage = stage_of(action.chunk)};
  }
  int stage_of(int chunk) const;
  LayerRange range(const PipelineAction& action) const { return chunks_[static_cast<size_t>(action.chunk)]; }
  bool has_objective(const PipelineAction& action) const;
  bool goes_back(const PipelineAction& action) const { return stage_of(action.chunk) >= lowest_stage_; }
  PipelineLists lists(size_t num_micro) const;

  Chain& chain_;
  Layout& layout_;
  std::vector<LayerRange> chunks_;  // stages of the local chain
  WalkOptions walk_;
  int lowest_stage_;           // of the pipeline
  at::TensorOptions options_;  // of what goes from layer to layer
  PipelineExchange exchange_;
  TraceFile* trace_ = nullptr;
  std::map<std::pair<int, int>, Open> open_;  // by chunk and micro-batch
  std::map<std::pair<int, int>, DeferredProducts> weights_;
};

}  // namespace duoka::parallel
