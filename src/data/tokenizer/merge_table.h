// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace duoka::data {

/// Pair of token ids -> rank and result of their merge. Open addressing with linear probing: one cache line
/// for most look-ups, which is where byte-pair encoding spends its time.
class MergeTable {
  static constexpr uint64_t empty = UINT64_MAX;

 public:
  struct Merge {
    uint64_t pair = empty;
    uint32_t rank = no_rank;
    int32_t result = -1;
  };
  static constexpr uint32_t no_rank = UINT32_MAX;

  explicit MergeTable(size_t num_merges);

  /// A pair given twice keeps the later rank, as in Hugging Face's tokenizers.
  void add(int32_t left, int32_t right, uint32_t rank, int32_t result);

  /// rank == no_rank when the two do not merge.
  const Merge& find(int32_t left, int32_t right) const {
    const uint64_t pair = key(left, right);
    size_t slot = hash(pair) & mask_;
    while (slots_[slot].pair != pair && slots_[slot].pair != empty) slot = (slot + 1) & mask_;
    return slots_[slot];
  }

  /// visit(left, right, result) for each merge, in no order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Merge& merge : slots_) {
      if (merge.pair != empty) {
        visit(static_cast<int32_t>(merge.pair >> 32), static_cast<int32_t>(merge.pair & UINT32_MAX),
              merge.result);
      }
    }
  }

 private:
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  static size_t hash(uint64_t pair) {
    pair *= 0x9E3779B97F4A7C15U;
    return static_cast<size_t>(pair ^ pair >> 32);
  }

  std::vector<Merge> slots_;
  size_t mask_;
};

}  // namespace duoka::data
