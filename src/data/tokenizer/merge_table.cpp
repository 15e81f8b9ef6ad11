// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/merge_table.h"

#include <bit>

namespace duoka::data {

// At most half full, so that a look-up that finds nothing ends soon.
MergeTable::MergeTable(size_t num_merges)
    : slots_(std::bit_ceil(num_merges * 2 + 2)), mask_(slots_.size() - 1) {}

void MergeTable::add(int32_t left, int32_t right, uint32_t rank, int32_t result) {
  const uint64_t pair = key(left, right);
  size_t slot = hash(pair) & mask_;
  while (slots_[slot].pair != pair && slots_[slot].pair != empty) slot = (slot + 1) & mask_;
  slots_[slot] = {pair, rank, result};
}

}  // namespace duoka::data
