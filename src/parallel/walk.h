// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "duoka/core/layer.h"
#include "duoka/core/layer_range.h"
#include "parallel/activation_offload.h"

namespace duoka::parallel {

// How one micro-batch goes along a chain and back. Stages: layer i is stage i, the objective is stage L
// (number of layers of the chain).

/// Told before and after each stage of a walk, whatever layer it is: where parameters are fetched and given
/// back, and reductions started. The objective's forward and backward are one, counted as part of the way
/// back; in walk_forward(), where there is no way back, as part of the way there.
class WalkObserver {
 public:
  virtual ~WalkObserver() = default;
  virtual void before(int64_t /*stage*/, bool /*is_way_back*/) {}
  virtual void after(int64_t /*stage*/, bool /*is_way_back*/) {}
};

/// The stages that use each parameter, ascending: two for a tied head.
std::unordered_map<Parameter*, std::vector<int64_t>> stages_of(const Chain& chain);

struct WalkOptions {
  bool recompute = false;
  /// Lowest stage whose backward runs; layers below save nothing and are not walked back.
  int64_t lowest_stage = 0;
  /// Moves what layers leave out of memory on the way there and back a layer ahead; null: it stays.
  ActivationOffload* offload = nullptr;
};

/// What one layer's forward leaves until its backward: its input when it is run again, else its saved
/// tensors.
struct Trace {
  at::Tensor input;
  Saved saved;
  std::vector<AwayTensor> away = {};  ///< Both, while an ActivationOffload has them.
};

/// Forward through `range`; x becomes its output.
std::vector<Trace> forward_range(Chain& chain, LayerRange range, const Stream& stream,
                                 const WalkOptions& options, WalkObserver& observer, at::Tensor& x);
/// Backward through `range`, down to options.lowest_stage; uses up `traces`, so that memory falls on the way.
/// Returns the gradient by the range's input; undefined when the walk ended inside.
at::Tensor backward_range(Chain& chain, LayerRange range, std::vector<Trace> traces, at::Tensor dy,
                          const Stream& stream, const WalkOptions& options, WalkObserver& observer);

/// Forward and backward of one stream; adds the gradient of scale * loss into trainable parameters.
/// Returns the sum of the loss over the trained tokens.
double walk_forward_backward(Chain& chain, const Stream& stream, double scale, const WalkOptions& options,
                             WalkObserver& observer);
/// Tells the observer what walk_forward_backward() would, and computes nothing: for a rank without a
/// micro-batch.
void walk_idle(const Chain& chain, const WalkOptions& options, WalkObserver& observer);

/// Forward only; nothing is kept. Returns the sum of the loss over the trained tokens. A null stream:
/// walk_idle().
double walk_forward(Chain& chain, const Stream* stream, WalkObserver& observer);

}  // namespace duoka::parallel
