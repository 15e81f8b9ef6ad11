// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "duoka/comm/group.h"
#include "duoka/parallel/evaluate.h"
#include "parallel/walk.h"

namespace duoka::parallel {

/// Forward of each stream; a null one is an idle walk.
LossSums walk_streams(Chain& chain, const std::vector<const Stream*>& streams, WalkObserver& observer);

/// The sums over the ranks. Collective.
LossSums sum_over(const LossSums& own, const comm::Group& group);

}  // namespace duoka::parallel
