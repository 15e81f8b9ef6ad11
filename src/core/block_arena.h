// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/free_space.h"

namespace duoka::detail {

/// Large blocks of memory out of one stretch of addresses; neighbours that are free become one. Pages of free
/// blocks stay with the process, to be used again without the system clearing them, as long as all its pages
/// are no more than the blocks that once lived at a time. A new block comes as low as it fits, and pages are
/// given back from above, so that blocks mostly fall on pages. Thread-safe.
class BlockArena final {
 public:
  /// `most_bytes` of addresses; they cost nothing until used.
  explicit BlockArena(size_t most_bytes = size_t{1} << 42);
  ~BlockArena();
  BlockArena(const BlockArena&) = delete;
  BlockArena& operator=(const BlockArena&) = delete;

  /// 64 KiB-aligned; the content is undefined. Null when there is no room.
  void* take(size_t bytes);
  void give(void* block, size_t bytes);
  /// Of free blocks, with pages.
  size_t cached_bytes() const;
  void release();

 private:
  using Units = size_t;  ///< Of unit_bytes.
  static constexpr size_t unit_bytes = size_t{1} << 16;
  static Units units_of(size_t bytes) { return (bytes + unit_bytes - 1) / unit_bytes; }

  /// Gives pages of free blocks back, those of the highest addresses first, until `most` are left.
  void drop_pages(Units most);
  void drop_pages_of(Units begin, Units size, Units most);

  mutable std::mutex mutex_;
  char* base_ = nullptr;
  FreeSpace space_{unit_bytes, 0};
  std::vector<bool> has_pages_;                      // by unit, up to the highest ever used
  Units live_ = 0, most_live_ = 0, with_pages_ = 0;  // with_pages_: of live and free blocks
};

}  // namespace duoka::detail
