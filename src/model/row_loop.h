// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "core/vector_loop.h"

namespace duoka::model {

/// What arithmetic on tensors of this dtype is done in: f64 for f64, else f32.
inline at::ScalarType accumulate_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

/// Calls body(begin, end) on ranges of rows, on several threads where there is enough to do.
template <class Body>
void for_rows(int64_t num_rows, int64_t num_columns, const Body& body) {
  constexpr int64_t grain_elements = 16384;  // about 10 us of the cheapest loop: what waking a thread costs
  at::parallel_for(0, num_rows, std::max<int64_t>(1, grain_elements / std::max<int64_t>(1, num_columns)),
                   body);
}

/// Calls body.template operator()<T>() with the C++ type of the tensor's numbers.
template <class Body>
void with_type_of(const at::Tensor& tensor, const Body& body) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, tensor.scalar_type(), "a loop over rows",
                                  [&] { body.template operator()<scalar_t>(); });
}

}  // namespace duoka::model
