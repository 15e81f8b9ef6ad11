// SPDX-License-Identifier: Apache-2.0
#include "parallel/update_steps.h"

#include <ATen/ops/tensor.h>

#include "duoka/comm/collectives.h"

namespace duoka::parallel {

int64_t agreed_count(int64_t own, const comm::Group& world) {
  at::Tensor most = at::tensor({own}, at::kLong);
  comm::all_reduce(most, comm::Op::max, world);
  return most.item<int64_t>();
}

std::vector<TreeStep> order_of_steps(int64_t num_steps, bool exact) {
  if (exact) return tree_order(num_steps);
  std::vector<TreeStep> order;
  for (int64_t i = 0; i < num_steps; ++i) order.push_back({i, 0});
  return order;
}

}  // namespace duoka::parallel
