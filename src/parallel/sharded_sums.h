// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "parallel/collective_chain.h"
#include "parallel/gradient_sums.h"
#include "parallel/row_layout.h"
#include "parallel/split_table.h"
#include "parallel/sum_tree.h"

namespace duoka::parallel {

/// Each rank of the shard group holds the sums of its own rows only (ZeRO-1 and up). A parameter's gradient
/// lives from its layer's backward until it is packed for the reduce-scatter: in each micro-step (ZeRO-2), or
/// in the last one. Then the rows' sums are added over the replicas. Source: Rajbhandari et al., "ZeRO",
/// arXiv:1910.02054, section 5.
///
/// exact: packed gradients of the micro-steps are added in the tree, so they are kept (log2(micro-steps) + 1
/// of them) until the last micro-step reduces them by all-to-all, which sends as much as a reduce-scatter.
class ShardedSums final : public GradientSums {
 public:
  /// Buckets on their way at a time: each holds its gradients once more.
  static constexpr size_t most_under_way = 3;

  ShardedSums(std::vector<GradientBucket> buckets, const SumGroups& groups, bool each_step, bool exact);

  void begin_step(const MicroStep& step) override;
  void complete(int64_t stage) override;
  void finish() override;
  bool is_under_way() const override { return is_under_way_; }
  bool talks_each_step() const override { return each_step_; }
  at::Tensor sum_of(const Parameter& parameter) const override;

 private:
  struct Bucket {
    GradientBucket what;
    RowLayout layout;
    comm::Group replicas;
    at::Tensor sum;        ///< [chunk], this rank's rows.
    bool has_sum = false;  ///< Of this update's first reduction, if only under way.
    SumTree tree;
    std::optional<SplitTable> table;  ///< Where it is one.
  };
  void send_heads(int64_t stage);
  void reduce(Bucket& bucket, at::Tensor packed);
  void reduce_exactly(Bucket& bucket);
  void add_rows(Bucket& bucket, const at::Tensor& ids, const at::Tensor& rows) const;
  static at::Tensor take_gradients(Bucket& bucket);

  std::vector<Bucket> buckets_;  // in the order they become complete
  comm::Group shard_;
  bool each_step_, exact_;
  bool is_under_way_ = false;
  MicroStep step_;
  size_t next_ = 0;
  ChainQueue chains_;
};

}  // namespace duoka::parallel
