// SPDX-License-Identifier: Apache-2.0
#include "parallel/sharded_sums.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/zeros.h>

#include "duoka/core/error.h"

namespace duoka::parallel {

namespace {

std::vector<at::Tensor> values_of(const GradientBucket& bucket) {
  std::vector<at::Tensor> values;
  for (const Parameter* parameter : bucket.parameters) values.push_back(parameter->value);
  return values;
}

}  // namespace

ShardedSums::ShardedSums(std::vector<GradientBucket> buckets, const SumGroups& groups, bool each_step,
                         bool exact)
    : shard_(groups.shard), each_step_(each_step), exact_(exact) {
  for (GradientBucket& what : buckets) {
    RowLayout layout(values_of(what), shard_.size());
    at::Tensor sum = at::zeros({layout.chunk()}, what.options());
    comm::Group replicas = groups.replicas_of(*what.parameters.front());
    for (Parameter* parameter : what.parameters) parameter->grad.reset();
    std::optional<SplitTable> table;
    if (what.head_stage >= 0 && !exact && replicas.size() == 1)
      table.emplace(*what.parameters.front(), what.head_stage, shard_);
    buckets_.push_back({.what = std::move(what),
                        .layout = std::move(layout),
                        .replicas = std::move(replicas),
                        .sum = std::move(sum),
                        .tree = {},
                        .table = std::move(table)});
  }
}

void ShardedSums::begin_step(const MicroStep& step) {
  for (Bucket& bucket : buckets_) {
    if (!is_under_way_) bucket.has_sum = false;
    if (bucket.table && step.is_last) bucket.table->begin(step.num_tokens);
  }
  step_ = step;
  next_ = 0;
  is_under_way_ = true;
}

at::Tensor ShardedSums::take_gradients(Bucket& bucket) {
  std::vector<at::Tensor> gradients;
  for (Parameter* parameter : bucket.what.parameters) gradients.push_back(std::exchange(parameter->grad, {}));
  return bucket.layout.pack(gradients, bucket.what.options());
}

void ShardedSums::send_heads(int64_t stage) {
  for (Bucket& bucket : buckets_) {
    if (!bucket.table || !bucket.table->comes_to_head(stage)) continue;
    reduce(bucket, take_gradients(bucket));
    bucket.table->open_rows();
  }
}

void ShardedSums::complete(int64_t stage) {
  if (step_.is_last) send_heads(stage);
  while (next_ < buckets_.size() && buckets_[next_].what.stage >= stage) {
    Bucket& bucket = buckets_[next_++];
    if (bucket.table && bucket.table->is_split()) continue;
    if (exact_) {
      bucket.tree.add(take_gradients(bucket), step_.num_additions);
      if (step_.is_last) reduce_exactly(bucket);
    } else if (each_step_ || step_.is_last) {
      reduce(bucket, take_gradients(bucket));
    }
  }
}

void ShardedSums::reduce(Bucket& bucket, at::Tensor packed) {
  // An update's first sum is made where it stays.
  const bool is_first = !std::exchange(bucket.has_sum, true);
  at::Tensor rows = is_first ? bucket.sum : at::empty_like(bucket.sum);
  const bool is_last = step_.is_last;
  CollectiveChain chain{[this, rows, packed = std::move(packed)]() mutable {
                          return comm::start_reduce_scatter_into(rows, packed, shard_);
                        },
                        [&bucket, rows, is_first, is_last] {
                          if (!is_first) bucket.sum.add_(rows);
                          if (!is_last || bucket.replicas.size() == 1) return comm::Pending();
                          return comm::start_all_reduce(bucket.sum, comm::Op::sum, bucket.replicas);
                        }};
  chains_.begin(std::move(chain), most_under_way);
}

// The rows' sums over the shard group are added over the replicas in the same tree: see Layout::data_share()
// for which rank computes which micro-batch.
void ShardedSums::reduce_exactly(Bucket& bucket) {
  at::Tensor rows = at::empty({bucket.layout.chunk()}, bucket.sum.options());
  CollectiveChain chain = tree_reduce_scatter(bucket.tree.take(), rows, shard_);
  for (auto& link : tree_all_reduce(rows, bucket.sum, bucket.replicas)) chain.push_back(std::move(link));
  chains_.begin(std::move(chain), most_under_way);
}

void ShardedSums::finish() {
  chains_.finish();
  for (Bucket& bucket : buckets_)
    if (bucket.table)
      bucket.table->add_rows(
          [&](const at::Tensor& ids, const at::Tensor& rows) { add_rows(bucket, ids, rows); });
  is_under_way_ = false;
}

void ShardedSums::add_rows(Bucket& bucket, const at::Tensor& ids, const at::Tensor& rows) const {
  at::Tensor own = bucket.layout.rows_in_chunk(bucket.sum, 0, shard_.rank());
  const at::Tensor places = ids - bucket.layout.first_row(0, shard_.rank());
  const at::Tensor here = at::logical_and(places.ge(0), places.lt(own.size(0))).nonzero().squeeze(1);
  own.index_add_(0, places.index_select(0, here), rows.index_select(0, here));
}

at::Tensor ShardedSums::sum_of(const Parameter& parameter) const {
  for (const Bucket& bucket : buckets_)
    for (size_t i = 0; i < bucket.what.parameters.size(); ++i)
      if (bucket.what.parameters[i] == &parameter)
        return bucket.layout.rows_in_chunk(bucket.sum, i, shard_.rank());
  throw StateError("no gradient is summed for " + parameter.name);
}

}  // namespace duoka::parallel
