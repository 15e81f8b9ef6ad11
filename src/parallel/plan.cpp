// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/plan.h"

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::parallel {

Plan resolve(const Plan& plan, int num_ranks) {
  if (num_ranks < 1) throw ConfigError(text("number of ranks = ", num_ranks, "; wanted at least 1"));
  if (plan.data < 0)
    throw ConfigError(text("data parallel degree = ", plan.data, "; wanted 1 or more, or 0 for all ranks"));
  Plan resolved = plan;
  if (resolved.data == 0) resolved.data = num_ranks;
  if (resolved.data != num_ranks)
    throw ConfigError(text("data parallel degree = ", resolved.data, " needs ", resolved.data, " ranks, but ",
                           num_ranks, " are started; use ", num_ranks, " (or 0 for all), or start ",
                           resolved.data));
  return resolved;
}

std::string describe(const Plan& plan) { return plan.data == 1 ? "one rank" : text("data ", plan.data); }

}  // namespace duoka::parallel
