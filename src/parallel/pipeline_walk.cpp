// SPDX-License-Identifier: Apache-2.0
#include "parallel/pipeline_walk.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <ATen/ops/tensor.h>

#include "duoka/comm/collectives.h"
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

int PipelineEnd::piece_with(int64_t stage) const {
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
    if (chunks[chunk].contains(stage)) return piece_of(chunk);
  return std::numeric_limits<int>::max();
}

int64_t PipelineEnd::lowest_stage(int lowest_piece, int64_t lowest_trained) const {
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
    if (piece_of(chunk) >= lowest_piece)
      return piece_of(chunk) == lowest_piece ? lowest_trained : chunks[chunk].first;
  return std::numeric_limits<int64_t>::max();
}

PipelineWalk::PipelineWalk(Chain& chain, Layout& layout, const WalkOptions& walk)
    : chain_(chain),
      layout_(layout),
      chunks_(local_chunks(chain, layout)),
      walk_(walk),
      lowest_stage_(find_lowest_stage()),
      options_(activation_options(chain)),
      exchange_(layout.pipeline_group(), layout.plan().chunks, options_.device(), lowest_stage_) {}

int PipelineWalk::stage_of(int chunk) const {
  const comm::Group& group = layout_.pipeline_group();
  return chunk * group.size() + group.rank();
}

std::vector<LayerRange> PipelineWalk::stages() const {
  std::vector<LayerRange> stages = chunks_;
  if (chain_.objective) ++stages.back().last;
  return stages;
}

/// Of the pipeline. Also sets from where on the layers held here are walked back.
int PipelineWalk::find_lowest_stage() {
  const comm::Group& group = layout_.pipeline_group();
  const PipelineEnd end{stages(), group.rank(), group.size()};
  const int64_t trained = lowest_trained_stage(chain_);
  at::Tensor on_any_rank = at::tensor({int64_t{end.piece_with(trained)}}, at::kLong);
  comm::all_reduce(on_any_rank, comm::Op::min, layout_.world());
  const auto lowest_of_all = static_cast<int>(on_any_rank.item<int64_t>());
  walk_.lowest_stage = end.lowest_stage(lowest_of_all, trained);
  return lowest_of_all;
}

PipelineLists PipelineWalk::lists(size_t num_micro) const {
  const Plan& plan = layout_.plan();
  return pipeline_lists({plan.schedule, plan.pipeline, static_cast<int>(num_micro), plan.chunks});
}

PipelineWalk::Actions PipelineWalk::begin(const std::vector<const Stream*>& streams, PipelineLists lists) {
  open_.clear();
  weights_.clear();
  std::vector<int64_t> rows;
  for (const Stream* stream : streams)
    rows.push_back(stream == nullptr ? 0 : layout_.tensor_axis()->part(stream->num_tokens()).count);
  Actions actions = lists[static_cast<size_t>(layout_.pipeline_group().rank())];
  exchange_.begin(std::move(lists), {std::move(rows), layout_.width(), options_});
  return actions;
}

void PipelineWalk::set_trace(TraceFile* trace) {
  trace_ = trace;
  exchange_.set_trace(trace);
}

bool PipelineWalk::has_objective(const PipelineAction& action) const {
  return chain_.objective != nullptr && action.chunk + 1 == static_cast<int>(chunks_.size());
}

int64_t PipelineWalk::first_walked(const PipelineAction& action) const {
  if (action.kind == Kind::forward) return range(action).first;
  if (action.kind == Kind::backward_weight || !goes_back(action)) return -1;
  return has_objective(action) ? range(action).last : range(action).last - 1;
}

StageWork PipelineWalk::stage_work(const Actions& actions, size_t place, GradientSums* sums,
                                   bool is_evaluation) {
  const LayerRange stages = range(actions[place]);
  const bool ends_with_objective = is_evaluation && has_objective(actions[place]);
  StageWork::Way way{.top = ends_with_objective ? stages.last : stages.last - 1,
                     .bottom = std::max(stages.first, walk_.lowest_stage),
                     .labels = labels(actions[place]),
                     .has_spans = false};
  for (size_t next = place + 1; next < actions.size() && way.following < 0; ++next)
    way.following = first_walked(actions[next]);
  return {layout_.shards(), sums, trace_, way};
}

ExactSum PipelineWalk::forward_backward(const std::vector<const Stream*>& streams, double scale, Sums sums) {
  const Actions actions = begin(streams, lists(streams.size()));
  const bool sums_each = sums.front()->talks_each_step();
  if (!sums_each || streams.empty())
    for (const auto& chunk : sums) chunk->begin_step({});
  ExactSum loss_sum;
  for (size_t place = 0; place < actions.size(); ++place) {
    const PipelineAction& action = actions[place];
    GradientSums& own = *sums[static_cast<size_t>(action.chunk)];
    // A stage's backwards go through the micro-batches in ascending order.
    const bool is_last = action.micro + 1 == static_cast<int>(streams.size());
    const bool ends_backward = action.kind == Kind::backward || action.kind == Kind::backward_weight;
    if (ends_backward && sums_each) own.begin_step({is_last, 0});
    const bool may_sum = sums_each || is_last;
    StageWork work = stage_work(actions, place, action.kind == Kind::backward && may_sum ? &own : nullptr);
    const Stream* stream = streams[static_cast<size_t>(action.micro)];
    if (stream == nullptr)
      pass(action, work);
    else if (action.kind == Kind::forward)
      forward(action, *stream, work);
    else if (action.kind == Kind::backward_weight)
      backward_weight(action);
    else
      loss_sum.add(backward(action, *stream, scale, work));
    if (ends_backward && may_sum) own.complete(sums_each ? 0 : range(action).first);
  }
  exchange_.finish();
  // A rank without micro-batches goes through its chunks as those that have some do; what is complete only
  // now (a tied weight) comes after all of them.
  for (size_t chunk = sums.size(); chunk-- > 0;) sums[chunk]->complete(chunks_[chunk].first);
  for (const auto& chunk : sums) chunk->complete(0);
  return loss_sum;
}

void PipelineWalk::forward(const PipelineAction& action, const Stream& stream, StageWork& work) {
  Open open;
  at::Tensor x = exchange_.input(action);
  {
    const TraceSpan span(trace_, action_name(action.kind), labels(action));
    open.traces = forward_range(chain_, range(action), stream, walk_, work, x);
  }
  if (has_objective(action))
    open.x = std::move(x);
  else
    exchange_.output(action, x);
  if (goes_back(action)) open_[{action.chunk, action.micro}] = std::move(open);
}

double PipelineWalk::backward(const PipelineAction& action, const Stream& stream, double scale,
                              StageWork& work) {
  if (walk_.offload != nullptr && goes_back(action))  // while the gradient is waited for
    if (auto& traces = open_.at({action.chunk, action.micro}).traces; !traces.empty())
      walk_.offload->fetch(traces.back());
  at::Tensor dy = exchange_.input(action);
  if (!goes_back(action)) return 0;
  Open open = std::move(open_.extract({action.chunk, action.micro}).mapped());
  double loss_sum = 0;
  {
    const TraceSpan span(trace_, action_name(action.kind), labels(action));
    if (has_objective(action)) {
      work.before(range(action).last, true);
      Objective::Share share = chain_.objective->loss_and_gradient(open.x, stream, scale);
      open.x.reset();
      work.after(range(action).last, true);
      loss_sum = share.loss_sum;
      dy = std::move(share.dx);
    }
    dy = backward_layers(action, std::move(open), std::move(dy), stream, work);
  }
  exchange_.output(action, dy);
  return loss_sum;
}

at::Tensor PipelineWalk::backward_layers(const PipelineAction& action, Open open, at::Tensor dy,
                                         const Stream& stream, StageWork& work) {
  std::optional<DeferredProducts::Scope> scope;
  if (action.kind == Kind::backward_input) scope.emplace(weights_[{action.chunk, action.micro}]);
  return backward_range(chain_, range(action), std::move(open.traces), std::move(dy), stream, walk_, work);
}

void PipelineWalk::backward_weight(const PipelineAction& action) {
  if (!goes_back(action)) return;
  const TraceSpan span(trace_, action_name(action.kind), labels(action));
  weights_.extract({action.chunk, action.micro}).mapped().add_all();
}

void PipelineWalk::pass(const PipelineAction& action, StageWork& work, bool is_evaluation) {
  if (action.kind != Kind::backward_weight) exchange_.input(action);
  const LayerRange stages = range(action);
  const auto pass_stage = [&](int64_t stage, bool is_way_back) {
    work.before(stage, is_way_back);
    work.after(stage, is_way_back);
  };
  if (action.kind == Kind::forward) {
    for (int64_t stage = stages.first; stage < stages.last; ++stage) pass_stage(stage, false);
    if (is_evaluation && has_objective(action)) pass_stage(stages.last, false);
  } else {
    const int64_t bottom = std::max(stages.first, walk_.lowest_stage);
    for (int64_t stage = first_walked(action); stage >= bottom; --stage) pass_stage(stage, true);
  }
}

double PipelineWalk::loss_sum(const std::vector<const Stream*>& streams) {
  const Actions actions = begin(streams, only_forwards(lists(streams.size())));
  const WalkOptions keep_nothing{false, std::numeric_limits<int64_t>::max()};
  double sum = 0;
  for (size_t place = 0; place < actions.size(); ++place) {
    const PipelineAction& action = actions[place];
    StageWork work = stage_work(actions, place, nullptr, /*is_evaluation=*/true);
    const Stream* stream = streams[static_cast<size_t>(action.micro)];
    if (stream == nullptr) {
      pass(action, work, /*is_evaluation=*/true);
      continue;
    }
    at::Tensor x = exchange_.input(action);
    {
      const TraceSpan span(trace_, action_name(action.kind), labels(action));
      forward_range(chain_, range(action), *stream, keep_nothing, work, x);
      if (has_objective(action)) {
        work.before(range(action).last, false);
        sum += chain_.objective->loss_sum(x, *stream);
        work.after(range(action).last, false);
      }
    }
    if (!has_objective(action)) exchange_.output(action, x);
  }
  exchange_.finish();
  return sum;
}

}  // namespace duoka::parallel
