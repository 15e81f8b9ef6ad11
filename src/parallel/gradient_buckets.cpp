// SPDX-License-Identifier: Apache-2.0
#include "parallel/gradient_buckets.h"

#include <algorithm>
#include <unordered_map>

#include <ATen/ops/zeros.h>

#include "duoka/core/error.h"

namespace duoka::parallel {

namespace {

int64_t gradient_bytes(const Parameter& parameter) {
  return parameter.numel() * static_cast<int64_t>(c10::elementSize(parameter.gradient_dtype()));
}

/// For each trainable parameter the lowest stage that uses it.
std::unordered_map<Parameter*, int64_t> complete_stages(const Chain& chain) {
  std::unordered_map<Parameter*, int64_t> stages;
  const auto note = [&](const std::vector<Parameter*>& parameters, int64_t stage) {
    for (Parameter* parameter : parameters)
      if (parameter->is_trainable) stages[parameter] = stage;
  };
  auto stage = static_cast<int64_t>(chain.layers.size());
  if (chain.objective) note(chain.objective->parameters(), stage);
  while (--stage >= 0) note(chain.layers[static_cast<size_t>(stage)]->parameters(), stage);
  return stages;
}

bool fit_one_buffer(const Parameter& a, const Parameter& b) {
  return a.gradient_dtype() == b.gradient_dtype() && a.value.device() == b.value.device();
}

}  // namespace

GradientBuckets::GradientBuckets(const Chain& chain, int64_t bucket_bytes) {
  const auto stages = complete_stages(chain);
  std::vector<Entry> entries;
  for (Parameter* parameter : chain.parameters())
    if (const auto found = stages.find(parameter); found != stages.end())
      entries.push_back({parameter, found->second});
  // Stable: within a stage chain order, which is the same on every rank.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.stage > b.stage; });

  std::vector<Entry> open;
  int64_t open_bytes = 0;
  for (size_t i = 0; i < entries.size();) {
    size_t end = i;
    int64_t stage_bytes = 0;
    for (; end < entries.size() && entries[end].stage == entries[i].stage; ++end)
      stage_bytes += gradient_bytes(*entries[end].parameter);
    if (!open.empty() && open_bytes + stage_bytes > bucket_bytes) {
      add_bucket(open);
      open.clear();
      open_bytes = 0;
    }
    for (; i < end; ++i) {
      if (!open.empty() && !fit_one_buffer(*open.back().parameter, *entries[i].parameter)) {
        add_bucket(open);
        open.clear();
        open_bytes = 0;
      }
      open.push_back(entries[i]);
      open_bytes += gradient_bytes(*entries[i].parameter);
    }
  }
  if (!open.empty()) add_bucket(open);
}

void GradientBuckets::add_bucket(const std::vector<Entry>& entries) {
  int64_t numel = 0;
  for (const Entry& entry : entries) numel += entry.parameter->numel();
  const Parameter& first = *entries.front().parameter;
  Bucket bucket;
  bucket.flat = at::zeros({numel}, first.value.options().dtype(first.gradient_dtype()));
  bucket.stage = entries.back().stage;
  int64_t begin = 0;
  for (const Entry& entry : entries) {
    Parameter& parameter = *entry.parameter;
    parameter.grad = bucket.flat.narrow(0, begin, parameter.numel()).view(parameter.value.sizes());
    begin += parameter.numel();
  }
  buckets_.push_back(std::move(bucket));
}

void GradientBuckets::zero() {
  for (Bucket& bucket : buckets_) bucket.flat.zero_();
}

void GradientBuckets::start_complete(int64_t stage, const comm::Group& group) {
  while (num_started_ < buckets_.size() && buckets_[num_started_].stage >= stage) {
    Bucket& bucket = buckets_[num_started_];
    bucket.pending = comm::start_all_reduce(bucket.flat, comm::Op::sum, group);
    ++num_started_;
  }
}

void GradientBuckets::wait() {
  for (size_t i = 0; i < num_started_; ++i) buckets_[i].pending.wait();
  num_started_ = 0;
}

int64_t GradientBuckets::lowest_stage() const {
  if (buckets_.empty()) throw StateError("lowest_stage() without trainable parameters");
  return buckets_.back().stage;
}

}  // namespace duoka::parallel
