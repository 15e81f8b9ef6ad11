// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace duoka {

/// Layers [first, last) of a list of them.
struct LayerRange {
  int64_t first = 0;
  int64_t last = 0;

  int64_t size() const { return last - first; }
  bool contains(int64_t layer) const { return layer >= first && layer < last; }
};

}  // namespace duoka
