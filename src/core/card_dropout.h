// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "duoka/core/dropout.h"

namespace duoka {

/// What Dropout does to x [N, D] on a device other than the CPU: y = x * mask / (1 - p); y may be x.
/// `threshold`: units whose word is below it are dropped. One pass by a kernel of our own (card_dropout.cpp);
/// by tensor operations where built without CUDA (no_card_dropout.cpp).
void drop_on_card(const Dropout& dropout, const at::Tensor& x, at::Tensor& y, const Stream& stream,
                  uint32_t threshold);

}  // namespace duoka
