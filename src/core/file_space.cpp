// SPDX-License-Identifier: Apache-2.0
#include "core/file_space.h"

#include <algorithm>
#include <iterator>

namespace duoka {

namespace {
constexpr int64_t page = 4096;

int64_t whole_pages(int64_t num_bytes) { return (num_bytes + page - 1) / page * page; }
}  // namespace

int64_t FileSpace::take(int64_t num_bytes) {
  const int64_t length = whole_pages(num_bytes);
  const auto hole = std::ranges::find_if(holes_, [&](const auto& one) { return one.second >= length; });
  if (hole == holes_.end()) {
    end_ += length;
    return end_ - length;
  }
  const auto [offset, rest] = std::pair(hole->first, hole->second - length);
  holes_.erase(hole);
  if (rest > 0) holes_.emplace(offset + length, rest);
  return offset;
}

void FileSpace::give_back(int64_t offset, int64_t num_bytes) {
  const int64_t length = whole_pages(num_bytes);
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
