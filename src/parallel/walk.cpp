// SPDX-License-Identifier: Apache-2.0
#include "parallel/walk.h"

#include <algorithm>
#include <utility>

#include "duoka/core/host_allocator.h"

namespace duoka::parallel {

namespace {

Layer& layer_of(Chain& chain, int64_t stage) { return *chain.layers[static_cast<size_t>(stage)]; }

int64_t objective_stage(const Chain& chain) { return static_cast<int64_t>(chain.layers.size()); }

/// What it makes is saved, or gone when it returns, but for the result, which is the next layer's.
at::Tensor run_forward(Layer& layer, const at::Tensor& x, const Stream& stream, Saved& saved) {
  const MemoryScope scope(MemoryClass::activations);
  return layer.forward(x, stream, saved);
}

at::Tensor backward_layer(Layer& layer, Trace trace, const at::Tensor& dy, const Stream& stream,
                          bool recompute) {
  if (recompute) {
    trace.saved = Saved(true);
    run_forward(layer, trace.input, stream, trace.saved);
    trace.input.reset();
  }
  return layer.backward(dy, stream, trace.saved);
}

}  // namespace

std::unordered_map<Parameter*, std::vector<int64_t>> stages_of(const Chain& chain) {
  std::unordered_map<Parameter*, std::vector<int64_t>> stages;
  const auto note = [&](const std::vector<Parameter*>& parameters, int64_t stage) {
    for (Parameter* parameter : parameters)
      if (auto& known = stages[parameter]; known.empty() || known.back() != stage) known.push_back(stage);
  };
  for (int64_t stage = 0; const auto& layer : chain.layers) note(layer->parameters(), stage++);
  if (chain.objective) note(chain.objective->parameters(), objective_stage(chain));
  return stages;
}

std::vector<Trace> forward_range(Chain& chain, LayerRange range, const Stream& stream,
                                 const WalkOptions& options, WalkObserver& observer, at::Tensor& x) {
  std::vector<Trace> traces;
  traces.reserve(static_cast<size_t>(range.last - range.first));
  for (int64_t stage = range.first; stage < range.last; ++stage) {
    const bool is_walked_back = stage >= options.lowest_stage;
    Trace trace{{}, Saved(is_walked_back && !options.recompute)};
    if (is_walked_back && options.recompute) trace.input = x;
    observer.before(stage, false);
    x = run_forward(layer_of(chain, stage), x, stream, trace.saved);
    observer.after(stage, false);
    // What the objective follows is wanted back at once.
    const bool is_last = chain.objective && stage + 1 == objective_stage(chain);
    if (options.offload != nullptr && is_walked_back && !is_last) options.offload->put(trace, stream);
    traces.push_back(std::move(trace));
  }
  return traces;
}

at::Tensor backward_range(Chain& chain, LayerRange range, std::vector<Trace> traces, at::Tensor dy,
                          const Stream& stream, const WalkOptions& options, WalkObserver& observer) {
  for (int64_t stage = range.last - 1; stage >= std::max(range.first, options.lowest_stage); --stage) {
    Trace trace = std::move(traces.back());
    traces.pop_back();
    if (options.offload != nullptr) {
      options.offload->take(trace);
      if (!traces.empty()) options.offload->fetch(traces.back());
    }
    observer.before(stage, true);
    dy = backward_layer(layer_of(chain, stage), std::move(trace), dy, stream, options.recompute);
    observer.after(stage, true);
  }
  return range.first < options.lowest_stage ? at::Tensor() : dy;
}

double walk_forward_backward(Chain& chain, const Stream& stream, double scale, const WalkOptions& options,
                             WalkObserver& observer) {
  const int64_t end = objective_stage(chain);
  at::Tensor x;
  std::vector<Trace> traces = forward_range(chain, {0, end}, stream, options, observer, x);
  observer.before(end, true);
  Objective::Share share = chain.objective->loss_and_gradient(x, stream, scale);
  x.reset();  // the layers' saved tensors hold what of it is needed
  observer.after(end, true);
  backward_range(chain, {0, end}, std::move(traces), std::move(share.dx), stream, options, observer);
  return share.loss_sum;
}

void walk_idle(const Chain& chain, const WalkOptions& options, WalkObserver& observer) {
  const int64_t end = objective_stage(chain);
  for (int64_t stage = 0; stage < end; ++stage) {
    observer.before(stage, false);
    observer.after(stage, false);
  }
  for (int64_t stage = end; stage >= options.lowest_stage; --stage) {
    observer.before(stage, true);
    observer.after(stage, true);
  }
}

double walk_forward(Chain& chain, const Stream* stream, WalkObserver& observer) {
  at::Tensor x;
  double loss_sum = 0;
  for (int64_t stage = 0; stage <= objective_stage(chain); ++stage) {
    observer.before(stage, false);
    if (stream != nullptr && stage < objective_stage(chain)) {
      Saved nothing(false);
      x = layer_of(chain, stage).forward(x, *stream, nothing);
    } else if (stream != nullptr) {
      loss_sum = chain.objective->loss_sum(x, *stream);
    }
    observer.after(stage, false);
  }
  return loss_sum;
}

}  // namespace duoka::parallel
