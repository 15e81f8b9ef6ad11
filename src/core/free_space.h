// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>

namespace duoka {

/// Which parts of a stretch (a file, addresses) are in use: each is taken as low as it fits, and free
/// neighbours are one. Sizes are rounded up to whole units.
class FreeSpace final {
 public:
  /// `size`: of the stretch, rounded down to whole units.
  explicit FreeSpace(int64_t unit, int64_t size = std::numeric_limits<int64_t>::max());

  /// Where `num_bytes` bytes may lie; nothing when there is no room.
  std::optional<int64_t> take(int64_t num_bytes);
  /// What take(num_bytes) gave may be given to others.
  void give_back(int64_t offset, int64_t num_bytes);
  /// offset -> length, none beside another.
  const std::map<int64_t, int64_t>& holes() const { return holes_; }
  /// Behind all that was ever in use.
  int64_t end() const { return end_; }

 private:
  int64_t whole_units(int64_t num_bytes) const { return (num_bytes + unit_ - 1) / unit_ * unit_; }

  int64_t unit_;
  std::map<int64_t, int64_t> holes_;
  int64_t end_ = 0;
};

}  // namespace duoka
