// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace duoka::comm {

/// Cores this process may run on, ascending.
std::vector<int> allowed_cores();

/// How many threads are worth starting: the allowed cores, or fewer where a control group limits the time.
int usable_cores();

/// Rank `rank`'s part of `cores` when they are dealt out among `num_ranks` in runs of neighbours; the first
/// ranks get one more where it does not divide. All of them when there are fewer cores than ranks.
std::vector<int> share_of_cores(std::span<const int> cores, int rank, int num_ranks);

}  // namespace duoka::comm
