// SPDX-License-Identifier: Apache-2.0
#include "core/free_space.h"

#include <algorithm>
#include <iterator>

namespace duoka {

FreeSpace::FreeSpace(int64_t unit, int64_t size) : unit_(unit) {
  if (size >= unit) holes_.emplace(0, size / unit * unit);
}

std::optional<int64_t> FreeSpace::take(int64_t num_bytes) {
  const int64_t length = whole_units(num_bytes);
  const auto hole = std::ranges::find_if(holes_, [&](const auto& one) { return one.second >= length; });
  if (hole == holes_.end()) return std::nullopt;
  const auto [offset, rest] = std::pair(hole->first, hole->second - length);
  holes_.erase(hole);
  if (rest > 0) holes_.emplace(offset + length, rest);
  end_ = std::max(end_, offset + length);
  return offset;
}

void FreeSpace::give_back(int64_t offset, int64_t num_bytes) {
  const int64_t length = whole_units(num_bytes);
  if (length == 0) return;
  auto hole = holes_.emplace(offset, length).first;
  if (const auto next = std::next(hole); next != holes_.end() && next->first == offset + length) {
    hole->second += next->second;
    holes_.erase(next);
  }
  if (hole == holes_.begin()) return;
  const auto before = std::prev(hole);
  if (before->first + before->second != offset) return;
  before->second += hole->second;
  holes_.erase(hole);
}

}  // namespace duoka
