// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>

#include "cli/plan_search.h"

namespace duoka::cli {

/// Prints what a layout takes: memory of a card by class (of a pipeline of some of its places), and what a
/// card sends in an update. Lines of at most 80 columns.
void print_estimate(std::ostream& out, const parallel::Estimate& estimate, const Cluster& cluster);

/// Prints the first `most` of search_layouts(), one a line; there is one at least.
void print_candidates(std::ostream& out, const std::vector<Candidate>& candidates, const Cluster& cluster,
                      int64_t memory_bytes, size_t most);

}  // namespace duoka::cli
