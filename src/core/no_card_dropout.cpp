// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/where.h>

#include "core/card_dropout.h"

namespace duoka {

void drop_on_card(const Dropout& dropout, const at::Tensor& x, at::Tensor& y, const Stream& stream,
                  uint32_t) {
  y.copy_(at::where(dropout.kept(stream, x.size(1)), x * (1 / (1 - dropout.probability())), 0));
}

}  // namespace duoka
