// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "duoka/core/parameter.h"

namespace duoka::model {

/// Where a layer's constructor gets its parameters from: called once for each with Hugging Face's full name
/// ("model.layers.0.mlp.up_proj.weight") and the whole tensor's shape. A loader returns what the file holds
/// (and throws FormatError when it does not fit), a test returns random numbers, a sharded layout slices.
using ParameterSource = std::function<Parameter(const std::string& name, at::IntArrayRef shape)>;

}  // namespace duoka::model
