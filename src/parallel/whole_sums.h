// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "parallel/collective_chain.h"
#include "parallel/gradient_sums.h"
#include "parallel/split_table.h"
#include "parallel/sum_tree.h"

namespace duoka::parallel {

/// Each rank holds the sums of all its parameters: flat buffers, into which Parameter::grad are views, each
/// reduced in place as soon as it is complete in the last micro-step. A solo group sends nothing.
///
/// exact: each micro-step has its own buffers, added in the tree; the ranks' sums are added by all-to-all and
/// all-gather, which send as much as an all-reduce. Holds log2(micro-steps) + 1 gradients more.
class WholeSums final : public GradientSums {
 public:
  /// Allocates the buffers, zero, and points Parameter::grad into them.
  WholeSums(std::vector<GradientBucket> buckets, const SumGroups& groups, bool exact);

  void begin_step(const MicroStep& step) override;
  void complete(int64_t stage) override;
  void finish() override;
  bool is_under_way() const override { return is_under_way_; }
  bool talks_each_step() const override { return false; }
  at::Tensor sum_of(const Parameter& parameter) const override;

 private:
  struct Bucket {
    GradientBucket what;
    comm::Group group;
    at::Tensor sum;   ///< Flat; what slots see.
    at::Tensor leaf;  ///< Flat; what the micro-step adds to: `sum` itself unless exact.
    SumTree tree;
    std::optional<SplitTable> table;  ///< Where it is one.
  };
  static void point_gradients(Bucket& bucket);
  void send_heads(int64_t stage);
  void reduce(Bucket& bucket);
  void reduce_exactly(Bucket& bucket);

  std::vector<Bucket> buckets_;  // in the order they become complete
  bool exact_;
  bool is_under_way_ = false;
  MicroStep step_;
  size_t next_ = 0;
  ChainQueue chains_;
};

}  // namespace duoka::parallel
