// SPDX-License-Identifier: Apache-2.0
#include "parallel/gradient_sums.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "duoka/core/host_allocator.h"
#include "parallel/sharded_sums.h"
#include "parallel/walk.h"
#include "parallel/whole_sums.h"

namespace duoka::parallel {

namespace {

int64_t gradient_bytes(const Parameter& parameter) {
  return parameter.numel() * static_cast<int64_t>(c10::elementSize(parameter.gradient_dtype()));
}

bool fit_one_buffer(const Parameter& a, const Parameter& b, const SumGroups& groups) {
  return a.gradient_dtype() == b.gradient_dtype() && a.value.device() == b.value.device() &&
         &groups.replicas_of(a) == &groups.replicas_of(b);
}

struct Entry {
  Parameter* parameter;
  int64_t stage;
  int64_t head_stage;  // see GradientBucket
};

/// Trainable parameters from the stage completed first to that completed last.
std::vector<Entry> in_order_of_completion(const Chain& chain, LayerRange range, const SumGroups& groups,
                                          int64_t bucket_bytes) {
  const auto stages = stages_of(chain);
  std::vector<Entry> entries;
  for (Parameter* parameter : chain.parameters()) {
    const std::vector<int64_t>& users = stages.at(parameter);
    if (!parameter->is_trainable || !range.contains(users.front())) continue;
    // Last of all where another stage of the pipeline shares it, which cannot start its sum earlier: a rank
    // that waited for that one in between would keep it waiting.
    const bool is_tied = groups.is_tied(*parameter);
    const bool is_table = !is_tied && users.size() > 1 && parameter->value.dim() == 2 &&
                          gradient_bytes(*parameter) > bucket_bytes;
    entries.push_back({parameter, is_tied ? 0 : users.front(), is_table ? users[1] : -1});
  }
  // Stable: within a stage chain order, which is the same on every rank.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.stage > b.stage; });
  return entries;
}

}  // namespace

std::unordered_map<Parameter*, int64_t> complete_stages(const Chain& chain) {
  std::unordered_map<Parameter*, int64_t> lowest;
  for (const auto& [parameter, stages] : stages_of(chain))
    if (parameter->is_trainable) lowest[parameter] = stages.front();
  return lowest;
}

int64_t lowest_trained_stage(const Chain& chain) {
  int64_t lowest = std::numeric_limits<int64_t>::max();
  for (const auto& [parameter, stage] : complete_stages(chain)) lowest = std::min(lowest, stage);
  return lowest;
}

at::TensorOptions GradientBucket::options() const {
  return parameters.front()->value.options().dtype(parameters.front()->gradient_dtype());
}

const comm::Group& SumGroups::replicas_of(const Parameter& parameter) const {
  if (is_tied(parameter)) return tied_replicas.at(parameter.name);
  return parameter.is_whole() ? whole_replicas : slice_replicas;
}

std::vector<GradientBucket> make_buckets(const Chain& chain, LayerRange stages, const SumGroups& groups,
                                         int64_t bucket_bytes) {
  const std::vector<Entry> entries = in_order_of_completion(chain, stages, groups, bucket_bytes);
  std::vector<GradientBucket> buckets;
  GradientBucket open;
  int64_t open_bytes = 0;
  const auto close = [&] {
    if (!open.parameters.empty()) buckets.push_back(std::exchange(open, {}));
    open_bytes = 0;
  };
  for (size_t i = 0; i < entries.size();) {
    size_t end = i;
    int64_t stage_bytes = 0;
    for (; end < entries.size() && entries[end].stage == entries[i].stage; ++end)
      stage_bytes += gradient_bytes(*entries[end].parameter);
    if (open_bytes + stage_bytes > bucket_bytes) close();
    for (; i < end; ++i) {
      Parameter* parameter = entries[i].parameter;
      const bool is_alone = entries[i].head_stage >= 0 || open.head_stage >= 0;
      if (!open.parameters.empty() &&
          (is_alone || !fit_one_buffer(*open.parameters.back(), *parameter, groups)))
        close();
      open.parameters.push_back(parameter);
      open.stage = entries[i].stage;
      open.head_stage = entries[i].head_stage;
      open_bytes += gradient_bytes(*parameter);
    }
  }
  close();
  return buckets;
}

std::unique_ptr<GradientSums> make_gradient_sums(const Chain& chain, LayerRange stages,
                                                 const SumGroups& groups, int64_t bucket_bytes,
                                                 bool each_step, bool exact) {
  const MemoryScope scope(MemoryClass::gradients);
  std::vector<GradientBucket> buckets = make_buckets(chain, stages, groups, bucket_bytes);
  if (groups.shard.size() == 1) return std::make_unique<WholeSums>(std::move(buckets), groups, exact);
  return std::make_unique<ShardedSums>(std::move(buckets), groups, each_step && !exact, exact);
}

}  // namespace duoka::parallel
