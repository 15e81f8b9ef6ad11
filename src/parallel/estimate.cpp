// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/estimate.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include <ATen/ops/empty.h>

#include "duoka/core/error.h"
#include "duoka/core/stream_cut.h"
#include "duoka/core/text.h"
#include "duoka/parallel/stack.h"
#include "parallel/estimate_parts.h"
#include "parallel/pipeline_walk.h"

namespace duoka::parallel {

namespace {

/// The first rank of a tensor axis, for the shapes that follow from its size: it has no part smaller than
/// another's.
class AxisOfShapes final : public model::TensorAxis {
 public:
  explicit AxisOfShapes(int size) : size_(size) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  at::Tensor gather_rows(const at::Tensor&, const std::vector<int64_t>&) const override { return refuse(); }
  at::Tensor scatter_sum_rows(const at::Tensor&, const std::vector<int64_t>&) const override {
    return refuse();
  }
  void sum_(at::Tensor&) const override { refuse(); }
  void max_(at::Tensor&) const override { refuse(); }

 private:
  static at::Tensor refuse() {
    throw StateError("a model made for an estimate has no numbers to compute with");
  }
  int size_;
};

model::Decoder decoder_without_memory(const Workload& workload, int tensor_ranks,
                                      std::vector<LayerRange> layers) {
  const model::ParameterSource shapes = [&](const model::ParameterRequest& request) {
    auto shape = request.shape;
    if (request.slice) shape[static_cast<size_t>(request.slice->dim)] = request.slice->count;
    return request.parameter(at::empty(shape, at::TensorOptions(workload.dtype).device(at::kMeta)), false);
  };
  model::Decoder decoder(workload.model, shapes, std::make_shared<const AxisOfShapes>(tensor_ranks),
                         model::solo_context_axis(), std::move(layers));
  workload.tune(decoder);
  return decoder;
}

/// Tokens of the rank of the context axis that has most of them.
int64_t most_tokens(const Workload& workload, int context_ranks) {
  int64_t most = 0;
  for (int rank = 0; rank < context_ranks; ++rank)
    most = std::max(most, row_part(workload.row_tokens, rank, context_ranks).length());
  return workload.rows * most;
}

/// A row's last token has no target; over a context axis one rank has it, not the one that has most tokens to
/// train.
int64_t trained_within(const Workload& workload, const Plan& plan, const LayerRange& tokens) {
  if (plan.context > 1) return tokens.size();
  return tokens.size() - (tokens.last / workload.row_tokens - tokens.first / workload.row_tokens);
}

int64_t most_trained(const Workload& workload, const Plan& plan, int64_t tokens) {
  int64_t most = 0;
  for (int rank = 0; rank < plan.tensor; ++rank) {
    const model::Part own = model::part_of(tokens, rank, plan.tensor);
    most = std::max(most, trained_within(workload, plan, {own.begin, own.begin + own.count}));
  }
  return most;
}

/// All is worked out action by action; beyond this it would take minutes and gigabytes. And bytes must stay
/// below 2^63, at 2^31 a token in the largest of models.
void require_countable(const Workload& workload, const Plan& plan) {
  constexpr int64_t most_actions = int64_t{1} << 22;
  const int64_t most = most_actions / (int64_t{plan.pipeline} * plan.chunks);
  if (workload.accumulation > most)
    throw ConfigError(text("gradient_accumulation_steps = ", workload.accumulation,
                           "; an estimate is made for at most ", most, " in this layout"));
  constexpr int64_t most_tokens = int64_t{1} << 32;
  const double tokens = static_cast<double>(workload.rows) * static_cast<double>(workload.row_tokens) *
                        static_cast<double>(workload.accumulation);
  if (tokens > static_cast<double>(most_tokens))
    throw ConfigError(text("per_device_train_batch_size ", workload.rows, " x cutoff_len ",
                           workload.row_tokens, " x gradient_accumulation_steps ", workload.accumulation,
                           " makes ", tokens, " tokens; an estimate is made for at most ", most_tokens));
}

Question question_of(const Workload& workload, const Plan& plan) {
  require_countable(workload, plan);
  const auto value_bytes = static_cast<int64_t>(c10::elementSize(workload.dtype));
  const int64_t tokens = most_tokens(workload, plan.context);
  const PipelineShape shape{plan.schedule, plan.pipeline, static_cast<int>(workload.accumulation),
                            plan.chunks};
  return {workload,
          plan,
          mesh_shape(plan),
          value_bytes,
          std::max<int64_t>(4, value_bytes),
          tokens,
          model::part_of(tokens, 0, plan.tensor).count,
          trained_within(workload, plan, {0, tokens}),
          most_trained(workload, plan, tokens),
          plan.pipeline > 1 ? pipeline_lists(shape) : PipelineLists()};
}

PipelineEnd end_of(const Outline& outline, const Plan& plan) {
  std::vector<LayerRange> chunks;
  for (size_t i = 0; i < outline.layers.size(); ++i) chunks.push_back(outline.chunk_with_objective(i));
  return {std::move(chunks), outline.place, plan.pipeline};
}

std::vector<Outline> outlines_of(const Workload& workload, const Plan& plan, const Stack& stack) {
  std::vector<Outline> outlines;
  int lowest_piece = std::numeric_limits<int>::max();
  for (int place = 0; place < plan.pipeline; ++place) {
    auto layers = plan.pipeline > 1 ? layers_of_rank(plan, stack, place)
                                    : std::vector<LayerRange>{{0, workload.model.num_layers + 2}};
    outlines.push_back({decoder_without_memory(workload, plan.tensor, layers), layers, place});
    if (plan.pipeline > 1)
      for (const std::string& name : stack.tied) outlines.back().groups.tied_replicas[name] = comm::Group();
    const int64_t trained = lowest_trained_stage(outlines.back().chain());
    lowest_piece = std::min(lowest_piece, end_of(outlines.back(), plan).piece_with(trained));
  }
  if (lowest_piece == std::numeric_limits<int>::max())
    throw ConfigError("nothing to train: every parameter is frozen");
  for (Outline& outline : outlines) {
    outline.lowest_piece = lowest_piece;
    outline.lowest_stage =
        end_of(outline, plan).lowest_stage(lowest_piece, lowest_trained_stage(outline.chain()));
  }
  return outlines;
}

int64_t count_trained(std::vector<Outline>& outlines) {
  std::unordered_set<std::string> counted;
  int64_t count = 0;
  for (Outline& outline : outlines)
    for (const Parameter* parameter : outline.chain().parameters())
      if (parameter->is_trainable && counted.insert(parameter->name).second)
        count += c10::multiply_integers(parameter->global_shape);
  return count;
}

/// Forward, gradient by the input and gradient by the weights are a third of the time each.
std::vector<double> idle_shares(const Question& question, const Stack& stack, int lowest_piece) {
  if (question.plan.pipeline == 1) return {0};
  std::vector<double> times;
  size_t layer = 0;
  for (int64_t count : question.plan.split) {
    times.push_back(0);
    for (; count > 0; --count) times.back() += stack.costs[layer++];
  }
  std::vector<double> back = times;
  std::fill_n(back.begin(), lowest_piece, 0.0);
  return simulate(question.lists, {times, back, back}).idle_share;
}

}  // namespace

LayerRange Outline::chunk_with_objective(size_t chunk) const {
  LayerRange stages;
  for (size_t i = 0; i <= chunk; ++i) stages = {stages.last, stages.last + layers[i].size()};
  return stages;
}

LayerRange Outline::chunk(size_t chunk) const {
  LayerRange stages = chunk_with_objective(chunk);
  if (layers[chunk].last == decoder.config().num_layers + 2) --stages.last;
  return stages;
}

std::vector<GradientBucket> Outline::buckets(int64_t bucket_bytes) {
  std::vector<GradientBucket> all;
  for (size_t i = 0; i < layers.size(); ++i)
    for (GradientBucket& bucket : make_buckets(chain(), chunk_with_objective(i), groups, bucket_bytes))
      all.push_back(std::move(bucket));
  return all;
}

model::Block* Outline::block_at(int64_t stage) {
  for (const LayerRange& range : layers) {
    if (stage < range.size()) {
      const int64_t layer = range.first + stage;
      return layer >= 1 && layer <= decoder.num_blocks() ? &decoder.block(layer - 1) : nullptr;
    }
    stage -= range.size();
  }
  return nullptr;
}

double Estimate::idle_share() const {
  double sum = 0;
  for (const RankEstimate& rank : ranks) sum += rank.idle_share;
  return sum / static_cast<double>(ranks.size());
}

Estimate estimate(const Workload& workload, const Plan& plan, int num_ranks) {
  Estimate result;
  result.plan = resolve(plan, num_ranks);
  model::check_tensor_parallel(workload.model, plan.tensor);
  model::check_context_parallel(workload.model, plan.context, workload.row_tokens);
  const Stack stack = stack_of(workload.model);
  Plan split = result.plan;  // worked out once
  if (split.pipeline > 1) split.split = layers_of_stages(split, stack);
  const Question question = question_of(workload, split);
  std::vector<Outline> outlines = outlines_of(workload, split, stack);
  const std::vector<double> idle = idle_shares(question, stack, outlines.front().lowest_piece);
  result.num_parameters = model::num_parameters(workload.model);
  result.num_trained = count_trained(outlines);
  for (Outline& outline : outlines)
    result.ranks.push_back({outline.layers, memory_of(question, outline), traffic_of(question, outline),
                            idle[static_cast<size_t>(outline.place)]});
  return result;
}

}  // namespace duoka::parallel
