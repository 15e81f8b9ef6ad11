// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/parameter.h"

namespace duoka::model {

/// Indices [begin, begin + count) of one dim of a tensor, all of the others.
struct Slice {
  int64_t dim = 0;
  int64_t begin = 0;
  int64_t count = 0;
};

/// What a layer's constructor asks for: a tensor by Hugging Face's full name
/// ("model.layers.0.mlp.up_proj.weight") and the whole tensor's shape, and which part of it the layer keeps.
struct ParameterRequest {
  std::string name;
  std::vector<int64_t> shape;
  std::optional<Slice> slice = {};  ///< Nothing: all of it.

  /// The parameter that answers the request with `value`, of the slice's shape.
  Parameter parameter(at::Tensor value, bool is_trainable) const;
};

/// Where a layer's constructor gets its parameters from: called once for each. A loader returns what the file
/// holds (and throws FormatError when it does not fit), a test returns random numbers.
using ParameterSource = std::function<Parameter(const ParameterRequest& request)>;

/// The slice alone, in memory of its own; `x` itself where there is none.
at::Tensor cut(const at::Tensor& x, const std::optional<Slice>& slice);

}  // namespace duoka::model
