// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

namespace duoka {

/// Which parts of a file are in use. Sizes are rounded up to pages, so that no write has to read first.
class FileSpace final {
 public:
  /// Where `num_bytes` bytes may lie: in the first hole that is large enough, else at the end.
  int64_t take(int64_t num_bytes);
  /// What take(num_bytes) gave may be given to others.
  void give_back(int64_t offset, int64_t num_bytes);
  /// How long the file has become.
  int64_t end() const { return end_; }

 private:
  std::map<int64_t, int64_t> holes_;  // offset -> length, none beside another
  int64_t end_ = 0;
};

}  // namespace duoka
