// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/comm/group.h"
#include "parallel/collective_chain.h"

namespace duoka::parallel {

// One order of additions for the gradients of an update's micro-batches, whoever computed them.
//
// Micro-batch m of an update is a leaf. The node of all m = v (mod 2^k) is the node of m = v (mod 2^(k+1))
// plus that of m = v + 2^k (mod 2^(k+1)); what has no leaves is left out. Rank r of R computes m = r, r + R,
// …, so that for R a power of two its leaves are a whole node: it adds them up by itself, and the ranks'
// nodes are added in the same tree. Floating-point sums are then the same bits on 1, 2, 4, 8 … ranks.

/// The order in which one rank takes its `num_leaves` leaves so that few sums are open at a time: each entry
/// is a leaf, followed by how many times the two newest sums are then added.
struct TreeStep {
  int64_t leaf = 0;
  int num_additions = 0;
};
std::vector<TreeStep> tree_order(int64_t num_leaves);

/// The open sums of one buffer: at most log2(leaves) + 1.
class SumTree final {
 public:
  /// Takes the next leaf of tree_order(), whose memory it keeps and adds into. The sum ends up in that of the
  /// first.
  void add(at::Tensor leaf, int num_additions);
  /// The sum of all leaves. Empties the tree. Throws StateError before the last leaf.
  at::Tensor take();

 private:
  std::vector<at::Tensor> open_;
};

/// sum = the sum of all ranks' `own` [k], added up in the tree. `own` is read when the first link is run.
/// Sends 2(n-1)/n nbytes(own), as a ring would, and holds another two of it meanwhile.
CollectiveChain tree_all_reduce(at::Tensor own, at::Tensor sum, const comm::Group& group);
/// sum [m] = row `rank` of the sum of all ranks' `own` [n, m], added up in the tree. Sends (n-1)/n
/// nbytes(own) and holds another `own` meanwhile.
CollectiveChain tree_reduce_scatter(at::Tensor own, at::Tensor sum, const comm::Group& group);

}  // namespace duoka::parallel
