// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/stack.h"

#include "duoka/parallel/pipeline_schedule.h"

namespace duoka::parallel {

Stack stack_of(const model::ModelConfig& config) {
  Stack stack;
  stack.width = config.hidden_size;
  stack.costs.assign(static_cast<size_t>(config.num_layers) + 2, 0.0);
  // Blocks are alike, and what attention does beside its matrices grows with rows nobody knows yet.
  double in_blocks = 0;
  for (const auto& [name, shape] : model::linear_modules(config))
    in_blocks += static_cast<double>(shape[0]) * static_cast<double>(shape[1]);
  for (size_t layer = 1; layer + 1 < stack.costs.size(); ++layer)
    stack.costs[layer] = in_blocks / static_cast<double>(config.num_layers);
  stack.costs.back() = static_cast<double>(config.vocab_size) * static_cast<double>(config.hidden_size);
  if (config.tie_word_embeddings) stack.tied = {"model.embed_tokens.weight"};
  return stack;
}

std::vector<int64_t> layers_of_stages(const Plan& plan, const Stack& stack) {
  const int num_stages = plan.pipeline * plan.chunks;
  if (plan.split.empty()) return stage_split(stack.costs, num_stages);
  check_split(plan.split, static_cast<int64_t>(stack.costs.size()), num_stages);
  return plan.split;
}

std::vector<LayerRange> layers_of_rank(const Plan& plan, const Stack& stack, int rank) {
  std::vector<LayerRange> layers;
  int64_t first = 0;
  for (int stage = 0; const int64_t count : layers_of_stages(plan, stack)) {
    if (stage++ % plan.pipeline == rank) layers.push_back({first, first + count});
    first += count;
  }
  return layers;
}

}  // namespace duoka::parallel
