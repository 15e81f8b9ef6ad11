// SPDX-License-Identifier: Apache-2.0
#include "parallel/walk.h"

#include <utility>
#include <vector>

namespace duoka::parallel {

namespace {

/// What one layer's forward leaves until its backward: its input when it is run again, else its saved
/// tensors.
struct Trace {
  at::Tensor input;
  Saved saved;
};

std::vector<Trace> forward(Chain& chain, const Stream& stream, const WalkOptions& options, at::Tensor& x) {
  std::vector<Trace> traces;
  traces.reserve(chain.layers.size());
  for (size_t i = 0; i < chain.layers.size(); ++i) {
    const bool is_walked_back = static_cast<int64_t>(i) >= options.lowest_stage;
    Trace trace{{}, Saved(is_walked_back && !options.recompute)};
    if (is_walked_back && options.recompute) trace.input = x;
    x = chain.layers[i]->forward(x, stream, trace.saved);
    traces.push_back(std::move(trace));
  }
  return traces;
}

at::Tensor backward(Layer& layer, Trace trace, const at::Tensor& dy, const Stream& stream, bool recompute) {
  if (recompute) {
    trace.saved = Saved(true);
    layer.forward(trace.input, stream, trace.saved);
    trace.input.reset();
  }
  return layer.backward(dy, stream, trace.saved);
}

}  // namespace

double walk_forward_backward(Chain& chain, const Stream& stream, double scale, const WalkOptions& options,
                             const AfterStage& after_stage) {
  at::Tensor x;
  std::vector<Trace> traces = forward(chain, stream, options, x);
  Objective::Share share = chain.objective->loss_and_gradient(x, stream, scale);
  x.reset();  // the layers' saved tensors hold what of it is needed
  after_stage(static_cast<int64_t>(chain.layers.size()));

  at::Tensor gradient = std::move(share.dx);
  for (auto i = static_cast<int64_t>(chain.layers.size()) - 1; i >= options.lowest_stage; --i) {
    Trace trace = std::move(traces.back());
    traces.pop_back();  // memory falls as the walk goes back
    gradient = backward(*chain.layers[static_cast<size_t>(i)], std::move(trace), gradient, stream,
                        options.recompute);
    after_stage(i);
  }
  return share.loss_sum;
}

double walk_forward(Chain& chain, const Stream& stream) {
  at::Tensor x;
  for (const auto& layer : chain.layers) {
    Saved saved(false);
    x = layer->forward(x, stream, saved);
  }
  return chain.objective->loss_sum(x, stream);
}

}  // namespace duoka::parallel
