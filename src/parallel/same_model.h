// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "duoka/comm/group.h"
#include "duoka/core/parameter.h"

namespace duoka::parallel {

/// Checks that every rank of `group` holds the same parameters: names, shapes, dtypes, which are trainable.
/// Collective. Throws StateError, on all ranks together, with the first difference.
void check_same_model(const std::vector<Parameter*>& parameters, const comm::Group& group);

/// Gives every rank rank 0's values of the trainable ones. Collective; sends their bytes once, and on CPUs
/// only where a hash says that they differ.
void share_trainable_values(const std::vector<Parameter*>& parameters, const comm::Group& group);

}  // namespace duoka::parallel
