// SPDX-License-Identifier: Apache-2.0
#include "core/block_arena.h"

#include <algorithm>
#include <iterator>

#include <sys/mman.h>

namespace duoka::detail {

BlockArena::BlockArena(size_t most_bytes) {
  // A limit of addresses (ulimit -v) may allow fewer.
  for (size_t bytes = most_bytes; bytes >= unit_bytes && base_ == nullptr; bytes /= 2) {
    void* base =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) continue;
    base_ = static_cast<char*>(base);
    free_.emplace(0, bytes / unit_bytes);
  }
}

BlockArena::~BlockArena() = default;

void* BlockArena::take(size_t bytes) {
  const Units size = units_of(bytes);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(free_, [&](const auto& block) { return block.second >= size; });
  if (found == free_.end()) return nullptr;
  const auto [begin, free_size] = *found;
  free_.erase(found);
  if (free_size > size) free_.emplace(begin + size, free_size - size);
  if (has_pages_.size() < begin + size) has_pages_.resize(begin + size);
  const auto first = has_pages_.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = first + static_cast<std::ptrdiff_t>(size);
  with_pages_ += static_cast<Units>(std::count(first, last, false));
  std::fill(first, last, true);
  live_ += size;
  most_live_ = std::max(most_live_, live_);
  drop_pages(most_live_);
  return base_ + begin * unit_bytes;
}

void BlockArena::give(void* block, size_t bytes) {
  const std::lock_guard lock(mutex_);
  Units begin = static_cast<Units>(static_cast<char*>(block) - base_) / unit_bytes;
  Units size = units_of(bytes);
  live_ -= size;
  if (const auto next = free_.find(begin + size); next != free_.end()) {
    size += next->second;
    free_.erase(next);
  }
  if (const auto next = free_.lower_bound(begin); next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += size;
      return;
    }
  }
  free_.emplace(begin, size);
}

size_t BlockArena::cached_bytes() const {
  const std::lock_guard lock(mutex_);
  return (with_pages_ - live_) * unit_bytes;
}

void BlockArena::release() {
  const std::lock_guard lock(mutex_);
  drop_pages(live_);
}

void BlockArena::drop_pages(Units most) {
  for (auto block = free_.rbegin(); with_pages_ > most && block != free_.rend(); ++block)
    drop_pages_of(block->first, block->second, most);
}

void BlockArena::drop_pages_of(Units begin, Units size, Units most) {
  Units end = std::min(begin + size, has_pages_.size());
  while (with_pages_ > most && end > begin) {
    Units first = end;
    while (first > begin && has_pages_[first - 1] && with_pages_ > most) {
      has_pages_[--first] = false;
      --with_pages_;
    }
    if (first < end) ::madvise(base_ + first * unit_bytes, (end - first) * unit_bytes, MADV_DONTNEED);
    end = first == end ? end - 1 : first;
  }
}

}  // namespace duoka::detail
