// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "duoka/comm/group.h"
#include "parallel/sum_tree.h"

namespace duoka::parallel {

/// The largest of all ranks' numbers of micro-batches: where each step talks, all make so many. Collective.
int64_t agreed_count(int64_t own, const comm::Group& world);

/// In which order one rank takes its micro-batches: as they come, or for exact sums in the tree's.
std::vector<TreeStep> order_of_steps(int64_t num_steps, bool exact);

}  // namespace duoka::parallel
