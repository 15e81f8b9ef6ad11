// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "duoka/comm/group.h"
#include "duoka/model/tensor_axis.h"

namespace duoka::parallel {

/// The ranks of `group` as a model's tensor axis; the solo one for a group of one rank. A collective that
/// fails throws CommError.
std::shared_ptr<const model::TensorAxis> make_tensor_axis(const comm::Group& group);

}  // namespace duoka::parallel
