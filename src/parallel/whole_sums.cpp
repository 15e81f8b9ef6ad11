// SPDX-License-Identifier: Apache-2.0
#include "parallel/whole_sums.h"

#include <limits>
#include <utility>

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "duoka/core/error.h"

namespace duoka::parallel {

WholeSums::WholeSums(std::vector<GradientBucket> buckets, const SumGroups& groups, bool exact)
    : exact_(exact) {
  for (GradientBucket& what : buckets) {
    int64_t numel = 0;
    for (const Parameter* parameter : what.parameters) numel += parameter->numel();
    Bucket bucket;
    bucket.group = groups.replicas_of(*what.parameters.front());
    bucket.sum = at::zeros({numel}, what.options());
    bucket.leaf = bucket.sum;
    if (what.head_stage >= 0 && !exact && bucket.group.size() > 1)
      bucket.table.emplace(*what.parameters.front(), what.head_stage, bucket.group);
    bucket.what = std::move(what);
    point_gradients(bucket);
    buckets_.push_back(std::move(bucket));
  }
}

void WholeSums::point_gradients(Bucket& bucket) {
  int64_t begin = 0;
  for (Parameter* parameter : bucket.what.parameters) {
    parameter->grad = bucket.leaf.narrow(0, begin, parameter->numel()).view(parameter->value.sizes());
    begin += parameter->numel();
  }
}

void WholeSums::begin_step(const MicroStep& step) {
  for (Bucket& bucket : buckets_) {
    if (!is_under_way_) {
      // Also the tree's first leaf, which takes up the others: see SumTree.
      bucket.leaf = bucket.sum.zero_();
    } else if (exact_) {
      bucket.leaf = at::zeros_like(bucket.sum);
    }
    if (exact_) point_gradients(bucket);
    if (bucket.table && step.is_last) bucket.table->begin(step.num_tokens);
  }
  step_ = step;
  next_ = 0;
  is_under_way_ = true;
}

void WholeSums::send_heads(int64_t stage) {
  for (Bucket& bucket : buckets_) {
    if (!bucket.table || !bucket.table->comes_to_head(stage)) continue;
    reduce(bucket);
    bucket.table->open_rows();
  }
}

void WholeSums::complete(int64_t stage) {
  if (step_.is_last) send_heads(stage);
  while (next_ < buckets_.size() && buckets_[next_].what.stage >= stage) {
    Bucket& bucket = buckets_[next_++];
    if (exact_) bucket.tree.add(std::exchange(bucket.leaf, {}), step_.num_additions);
    if (!step_.is_last || (bucket.table && bucket.table->is_split())) continue;
    if (exact_)
      reduce_exactly(bucket);
    else
      reduce(bucket);
  }
}

void WholeSums::reduce(Bucket& bucket) {
  chains_.begin({[&bucket] { return comm::start_all_reduce(bucket.sum, comm::Op::sum, bucket.group); }},
                std::numeric_limits<size_t>::max());
}

void WholeSums::reduce_exactly(Bucket& bucket) {
  constexpr size_t most_under_way = 4;
  chains_.begin(tree_all_reduce(bucket.tree.take(), bucket.sum, bucket.group), most_under_way);
}

void WholeSums::finish() {
  chains_.finish();
  for (Bucket& bucket : buckets_) {
    if (bucket.table)
      bucket.table->add_rows([&](const at::Tensor& ids, const at::Tensor& rows) {
        sum_of(*bucket.what.parameters.front()).index_add_(0, ids, rows);
      });
    if (!exact_ && !bucket.table) continue;
    bucket.leaf = bucket.sum;
    point_gradients(bucket);
  }
  is_under_way_ = false;
}

at::Tensor WholeSums::sum_of(const Parameter& parameter) const {
  for (const Bucket& bucket : buckets_) {
    int64_t begin = 0;
    for (const Parameter* inside : bucket.what.parameters) {
      if (inside == &parameter)
        return bucket.sum.narrow(0, begin, parameter.numel()).view(parameter.value.sizes());
      begin += inside->numel();
    }
  }
  throw StateError("no gradient is summed for " + parameter.name);
}

}  // namespace duoka::parallel
