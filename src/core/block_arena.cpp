// SPDX-License-Identifier: Apache-2.0
#include "core/block_arena.h"

#include <algorithm>

#include <sys/mman.h>

namespace duoka::detail {

BlockArena::BlockArena(size_t most_bytes) {
  // A limit of addresses (ulimit -v) may allow fewer.
  for (size_t bytes = most_bytes; bytes >= unit_bytes && base_ == nullptr; bytes /= 2) {
    void* base =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) continue;
    base_ = static_cast<char*>(base);
    space_ = FreeSpace(unit_bytes, static_cast<int64_t>(bytes));
  }
}

BlockArena::~BlockArena() = default;

void* BlockArena::take(size_t bytes) {
  const Units size = units_of(bytes);
  const std::lock_guard lock(mutex_);
  const auto offset = space_.take(static_cast<int64_t>(bytes));
  if (!offset) return nullptr;
  const Units begin = static_cast<Units>(*offset) / unit_bytes;
  if (has_pages_.size() < begin + size) has_pages_.resize(begin + size);
  const auto first = has_pages_.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = first + static_cast<std::ptrdiff_t>(size);
  with_pages_ += static_cast<Units>(std::count(first, last, false));
  std::fill(first, last, true);
  live_ += size;
  most_live_ = std::max(most_live_, live_);
  drop_pages(most_live_);
  return base_ + *offset;
}

void BlockArena::give(void* block, size_t bytes) {
  const std::lock_guard lock(mutex_);
  live_ -= units_of(bytes);
  space_.give_back(static_cast<char*>(block) - base_, static_cast<int64_t>(bytes));
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
  const auto& holes = space_.holes();
  for (auto hole = holes.rbegin(); with_pages_ > most && hole != holes.rend(); ++hole)
    drop_pages_of(static_cast<Units>(hole->first) / unit_bytes, static_cast<Units>(hole->second) / unit_bytes,
                  most);
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
