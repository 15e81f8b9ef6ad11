// SPDX-License-Identifier: Apache-2.0
#include "parallel/pipeline_walk.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::parallel {

namespace {

using Kind = PipelineAction::Kind;

/// `layers`, which count the objective as the last layer, as stages of the chain of those held here.
std::vector<LayerRange> local_chunks(const Chain& chain, const Layout& layout) {
  const comm::Group& group = layout.pipeline_group();
  const bool is_last = group.rank() == group.size() - 1;
  const auto num_layers = static_cast<int64_t>(chain.layers.size());
  std::vector<LayerRange> chunks;
  int64_t next = 0;
  for (const LayerRange& range : layout.layers()) {
    chunks.push_back({next, next + range.size()});
    next += range.size();
  }
  if (next != num_layers + (is_last ? 1 : 0) || is_last != (chain.objective != nullptr))
    throw StateError(text("rank ", group.rank(), " of a pipeline of ", group.size(), " has ", num_layers,
                          chain.objective ? " layers and an objective" : " layers", "; the layout gives it ",
                          next, is_last ? " with the objective as the last one" : " and no objective"));
  if (is_last) --chunks.back().last;
  return chunks;
}

at::TensorOptions activation_options(const Chain& chain) {
  const auto parameters = chain.parameters();
  if (parameters.empty())
    throw StateError("a pipeline stage without parameters; give it a layer that has some");
  return parameters.front()->value.options();
}

}  // namespace

PipelineWalk::PipelineWalk(Chain& chain, Layout& layout, const WalkOptions& walk)
    : chain_(chain),
      layout_(layout),
      chunks_(local_chunks(chain, layout)),
      walk_(walk),
      options_(activation_options(chain)),
      exchange_(layout.pipeline_group(), layout.plan().chunks, options_.device()) {
  // Gradients go all the way down, but in the first stage of all only to the lowest layer that trains.
  const bool is_first = layout.pipeline_group().rank() == 0;
  walk_.lowest_stage = is_first ? std::min(walk.lowest_stage, chunks_.front().last) : 0;
}

PipelineLists PipelineWalk::lists(size_t num_micro) const {
  const Plan& plan = layout_.plan();
  return pipeline_lists({plan.schedule, plan.pipeline, static_cast<int>(num_micro), plan.chunks});
}

void PipelineWalk::begin(const std::vector<const Stream*>& streams, PipelineLists lists) {
  open_.clear();
  weights_.clear();
  std::vector<int64_t> rows;
  for (const Stream* stream : streams)
    rows.push_back(layout_.tensor_axis()->part(stream->num_tokens()).count);
  exchange_.begin(std::move(lists), {std::move(rows), layout_.width(), options_});
}

void PipelineWalk::set_trace(TraceFile* trace) {
  trace_ = trace;
  exchange_.set_trace(trace);
}

TraceLabels PipelineWalk::labels(const PipelineAction& action) const {
  const comm::Group& group = layout_.pipeline_group();
  return {.micro = action.micro, .stage = action.chunk * group.size() + group.rank()};
}

bool PipelineWalk::has_objective(const PipelineAction& action) const {
  return chain_.objective != nullptr && action.chunk + 1 == static_cast<int>(chunks_.size());
}

ExactSum PipelineWalk::forward_backward(const std::vector<const Stream*>& streams, double scale,
                                        GradientSums& sums) {
  const PipelineLists all = lists(streams.size());
  begin(streams, all);
  ExactSum loss_sum;
  for (const PipelineAction& action : all[static_cast<size_t>(layout_.pipeline_group().rank())]) {
    const Stream& stream = *streams[static_cast<size_t>(action.micro)];
    if (action.kind == Kind::forward)
      forward(action, stream);
    else if (action.kind == Kind::backward_weight)
      backward_weight(action);
    else
      loss_sum.add(backward(action, stream, scale));
    // A stage's backwards go through the micro-batches in ascending order.
    const bool ends_backward = action.kind == Kind::backward || action.kind == Kind::backward_weight;
    if (ends_backward && action.micro + 1 == static_cast<int>(streams.size()))
      sums.complete(range(action).first);
  }
  exchange_.finish();
  return loss_sum;
}

void PipelineWalk::forward(const PipelineAction& action, const Stream& stream) {
  WalkObserver nobody;
  Open& open = open_[{action.chunk, action.micro}];
  at::Tensor x = exchange_.input(action);
  {
    const TraceSpan span(trace_, action_name(action.kind), labels(action));
    open.traces = forward_range(chain_, range(action), stream, walk_, nobody, x);
  }
  if (has_objective(action))
    open.x = std::move(x);
  else
    exchange_.output(action, x);
}

double PipelineWalk::backward(const PipelineAction& action, const Stream& stream, double scale) {
  Open open = std::move(open_.extract({action.chunk, action.micro}).mapped());
  at::Tensor dy = exchange_.input(action);
  double loss_sum = 0;
  {
    const TraceSpan span(trace_, action_name(action.kind), labels(action));
    if (has_objective(action)) {
      Objective::Share share = chain_.objective->loss_and_gradient(open.x, stream, scale);
      open.x.reset();
      loss_sum = share.loss_sum;
      dy = std::move(share.dx);
    }
    dy = backward_layers(action, std::move(open), std::move(dy), stream);
  }
  exchange_.output(action, dy);
  return loss_sum;
}

void PipelineWalk::backward_weight(const PipelineAction& action) {
  const TraceSpan span(trace_, action_name(action.kind), labels(action));
  weights_.extract({action.chunk, action.micro}).mapped().add_all();
}

at::Tensor PipelineWalk::backward_layers(const PipelineAction& action, Open open, at::Tensor dy,
                                         const Stream& stream) {
  WalkObserver nobody;
  std::optional<DeferredProducts::Scope> scope;
  if (action.kind == Kind::backward_input) scope.emplace(weights_[{action.chunk, action.micro}]);
  return backward_range(chain_, range(action), std::move(open.traces), std::move(dy), stream, walk_, nobody);
}

double PipelineWalk::loss_sum(const std::vector<const Stream*>& streams) {
  const PipelineLists all = only_forwards(lists(streams.size()));
  begin(streams, all);
  const WalkOptions keep_nothing{false, std::numeric_limits<int64_t>::max()};
  WalkObserver nobody;
  double sum = 0;
  for (const PipelineAction& action : all[static_cast<size_t>(layout_.pipeline_group().rank())]) {
    const Stream& stream = *streams[static_cast<size_t>(action.micro)];
    at::Tensor x = exchange_.input(action);
    {
      const TraceSpan span(trace_, action_name(action.kind), labels(action));
      forward_range(chain_, range(action), stream, keep_nothing, nobody, x);
      if (has_objective(action)) sum += chain_.objective->loss_sum(x, stream);
    }
    if (!has_objective(action)) exchange_.output(action, x);
  }
  exchange_.finish();
  return sum;
}

}  // namespace duoka::parallel
