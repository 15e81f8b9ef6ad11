// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "duoka/comm/group.h"
#include "duoka/model/context_axis.h"

namespace duoka::parallel {

/// The ranks of `group` as a model's context axis, neighbours in rank order; the solo one for a group of one
/// rank. While exchanges are under way nothing else may use the group. One that fails throws CommError.
std::shared_ptr<const model::ContextAxis> make_context_axis(const comm::Group& group);

}  // namespace duoka::parallel
