// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "parallel/estimate_parts.h"
#include "parallel/make_slots.h"
#include "parallel/parameter_shards.h"
#include "parallel/sharded_sums.h"
#include "parallel/slot_home.h"
#include "parallel/sum_tree.h"
#include "parallel/walk.h"

namespace duoka::parallel {

namespace {

int64_t row_numbers(const Parameter& parameter) {
  return parameter.value.dim() == 0 ? 1 : parameter.numel() / std::max<int64_t>(1, parameter.value.size(0));
}
int64_t num_rows(const Parameter& parameter) {
  return parameter.value.dim() == 0 ? 1 : parameter.value.size(0);
}

/// Numbers that train here, and those of a rank's rows: with the room of rows it has not, and without.
struct Trained {
  int64_t whole = 0, share = 0, owned = 0;
};

Trained trained_numbers(const Chain& chain, int num_ranks) {
  Trained numbers;
  for (const Parameter* parameter : trainable_of(chain)) {
    numbers.whole += parameter->numel();
    numbers.share += rows_share(*parameter, num_ranks);
    numbers.owned += std::min(rows_share(*parameter, num_ranks), parameter->numel());
  }
  return numbers;
}

/// Gradients of an update that are open at once when they are added in a tree.
int64_t most_open_sums(int64_t num_micro) {
  int64_t open = 0, most = 0;
  for (const TreeStep& step : tree_order(num_micro)) {
    most = std::max(most, ++open);
    open -= step.num_additions;
  }
  return most;
}

/// A gradient lives from the first stage on the way back that uses its parameter until its bucket is packed;
/// up to so many buckets are on their way, packed and as rows.
int64_t sharded_sending(const Question& question, Outline& outline, bool are_gradients_held) {
  const int n = question.shard_ranks();
  const auto stages = stages_of(outline.chain());
  const auto buckets = outline.buckets(question.workload.engine.bucket_bytes);
  const bool has_walk_before = question.plan.zero_stage >= 2 && question.workload.accumulation > 1;
  // An all-to-all needs room for what comes; over Gloo a reduce-scatter is one.
  const bool receives_all = question.workload.engine.exact || question.workload.device == at::DeviceType::CPU;
  std::vector<int64_t> under_way;  // of the last buckets, newest at the end
  int64_t most = 0;
  for (size_t step = 0; step < buckets.size() * (has_walk_before ? 2 : 1); ++step) {
    const size_t i = step % buckets.size();
    int64_t share = 0, live = 0;
    for (const Parameter* parameter : buckets[i].parameters) share += rows_share(*parameter, n);
    for (size_t j = i; j < buckets.size() && !are_gradients_held; ++j)
      for (Parameter* parameter : buckets[j].parameters)
        if (stages.at(parameter).back() >= buckets[i].stage) live += parameter->numel();
    under_way.push_back(share * (receives_all ? 2 * n + 1 : n + 1));
    if (under_way.size() > ShardedSums::most_under_way) under_way.erase(under_way.begin());
    for (const int64_t numbers : under_way) live += numbers;
    most = std::max(most, live);
  }
  return most * question.gradient_bytes;
}

void add_gradients(const Question& question, Outline& outline, MemoryEstimate& memory) {
  const int n = question.shard_ranks();
  const int64_t bytes = question.gradient_bytes, num_micro = question.workload.accumulation;
  const Trained trained = trained_numbers(outline.chain(), n);
  const int64_t open = question.workload.engine.exact ? most_open_sums(num_micro) : 1;
  if (n == 1) {
    memory.gradients = trained.whole * open * bytes;
    return;
  }
  memory.gradients = trained.share * bytes;
  const bool waits = num_micro > 1 && (question.plan.zero_stage == 1 || question.workload.engine.exact);
  if (waits)
    memory.gradients +=
        question.workload.engine.exact ? trained.share * n * open * bytes : trained.whole * bytes;
  memory.sending = sharded_sending(question, outline, waits && !question.workload.engine.exact);
}

/// The whole parameters of a stage, and those of the next one on their way.
int64_t gathered_bytes(const Question& question, Outline& outline) {
  const int n = question.shard_ranks();
  std::vector<int64_t> whole(static_cast<size_t>(outline.num_stages() + 2), 0), coming = whole;
  for (const FetchedSet& set : fetched_sets(outline.chain(), n))
    for (const int64_t stage : set.stages) {
      whole[static_cast<size_t>(stage)] += set.whole;
      coming[static_cast<size_t>(stage)] += set.share * n;
    }
  int64_t most = 0;
  for (size_t stage = 0; stage + 1 < whole.size(); ++stage) {
    const int64_t neighbour = std::max(coming[stage + 1], stage > 0 ? coming[stage - 1] : 0);
    most = std::max(most, whole[stage] + std::max(coming[stage], neighbour));
  }
  return most * question.value_bytes;
}

int64_t most_working(const Question& question, Outline& outline) {
  int64_t most = 0;
  for (int64_t stage = outline.lowest_stage; stage < outline.num_stages(); ++stage)
    if (model::Block* block = outline.block_at(stage))
      most = std::max(most, block_bytes(question, *block, outline.decoder.config()).working);
  if (outline.chain().objective != nullptr)
    most = std::max(most, head_working_bytes(question, outline.decoder.head(), outline.decoder.config()));
  return most;
}

int64_t optimizer_bytes_of(const Question& question, Outline& outline) {
  const bool has_masters = question.gradient_bytes != question.value_bytes;
  const int64_t bytes = (has_masters ? question.gradient_bytes : 0) + question.workload.optimizer_bytes;
  const int n = question.shard_ranks();
  if (!question.workload.engine.offload_optimizer) return trained_numbers(outline.chain(), n).owned * bytes;
  std::vector<int64_t> windows = {0};  // numbers in each
  for (const Parameter* parameter : trainable_of(outline.chain())) {
    if (windows.back() * question.gradient_bytes >= slot_window_bytes) windows.push_back(0);
    windows.back() += rows_share(*parameter, n);
  }
  int64_t most = 0;
  for (size_t i = 0; i < windows.size(); ++i) {
    int64_t together = 0;
    for (size_t j = i; j < std::min(windows.size(), i + 3); ++j) together += windows[j];
    most = std::max(most, together);
  }
  return most * bytes;
}

}  // namespace

int64_t rows_share(const Parameter& parameter, int num_ranks) {
  return (num_rows(parameter) + num_ranks - 1) / num_ranks * row_numbers(parameter);
}

std::vector<FetchedSet> fetched_sets(const Chain& chain, int num_ranks) {
  std::vector<FetchedSet> sets;
  for (SetToFetch& fetched : sets_to_fetch(chain)) {
    FetchedSet& set = sets.emplace_back(FetchedSet{std::move(fetched.stages)});
    for (const Parameter* parameter : fetched.parameters) {
      set.share += rows_share(*parameter, num_ranks);
      set.whole += parameter->numel();
    }
  }
  return sets;
}

MemoryEstimate memory_of(const Question& question, Outline& outline) {
  MemoryEstimate memory;
  const int n = question.shard_ranks();
  for (const Parameter* parameter : outline.chain().parameters())
    memory.parameters += question.value_bytes *
                         (question.has_parameter_shards() ? rows_share(*parameter, n) : parameter->numel());
  memory.optimizer = optimizer_bytes_of(question, outline);
  add_gradients(question, outline, memory);
  memory.activations = activation_bytes(question, outline);
  if (question.has_parameter_shards()) memory.gathered = gathered_bytes(question, outline);
  memory.working = most_working(question, outline);
  return memory;
}

}  // namespace duoka::parallel
