// SPDX-License-Identifier: Apache-2.0
#include "parallel/sum_tree.h"

#include <memory>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "duoka/core/error.h"

namespace duoka::parallel {

namespace {

/// Visits the leaves first, first + stride, … below `count`, halves first.
void order_node(int64_t first, int64_t stride, int64_t count, std::vector<TreeStep>& steps) {
  if (first + stride >= count) {
    steps.push_back({first, 0});
    return;
  }
  order_node(first, 2 * stride, count, steps);
  order_node(first + stride, 2 * stride, count, steps);
  ++steps.back().num_additions;
}

/// The rows of [n, m] added up in the tree; the rows themselves are used up.
at::Tensor sum_rows(const at::Tensor& rows) {
  SumTree tree;
  for (const TreeStep& step : tree_order(rows.size(0))) tree.add(rows[step.leaf], step.num_additions);
  return tree.take();
}

}  // namespace

std::vector<TreeStep> tree_order(int64_t num_leaves) {
  std::vector<TreeStep> steps;
  if (num_leaves > 0) order_node(0, 1, num_leaves, steps);
  return steps;
}

void SumTree::add(at::Tensor leaf, int num_additions) {
  open_.push_back(std::move(leaf));
  for (int i = 0; i < num_additions; ++i) {
    const at::Tensor newest = std::move(open_.back());
    open_.pop_back();
    open_.back().add_(newest);
  }
}

at::Tensor SumTree::take() {
  if (open_.size() != 1) throw StateError("SumTree::take() before the last leaf");
  at::Tensor sum = std::move(open_.back());
  open_.clear();
  return sum;
}

CollectiveChain tree_reduce_scatter(at::Tensor own, at::Tensor sum, const comm::Group& group) {
  if (group.size() == 1)
    return {[=] {
      if (!sum.is_same(own)) sum.copy_(own.view(sum.sizes()));
      return comm::Pending();
    }};
  at::Tensor rows = at::empty_like(own);
  return {[=]() mutable { return comm::start_all_to_all_into(rows, own, group); },
          [=] {
            sum.copy_(sum_rows(rows));
            return comm::Pending();
          }};
}

CollectiveChain tree_all_reduce(at::Tensor own, at::Tensor sum, const comm::Group& group) {
  const int64_t n = group.size(), chunk = (own.numel() + n - 1) / n;
  if (n == 1) return tree_reduce_scatter(std::move(own), std::move(sum), group);
  at::Tensor rows = at::zeros({n, chunk}, own.options()), part = at::empty({chunk}, own.options());
  CollectiveChain chain = tree_reduce_scatter(rows, part, group);
  const auto send = chain.front(), add_up = chain.back();
  // `own` is read when the first link is run: a link before it may still be making it.
  chain.front() = [=] {
    rows.view(-1).narrow(0, 0, own.numel()).copy_(own);
    return send();
  };
  chain.back() = [=]() mutable {
    add_up().wait();  // done already: it starts nothing
    return comm::start_all_gather_into(rows, part, group);
  };
  chain.push_back([=] {
    sum.copy_(rows.view(-1).narrow(0, 0, sum.numel()));
    return comm::Pending();
  });
  return chain;
}

}  // namespace duoka::parallel
