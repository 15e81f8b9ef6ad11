// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace duoka::data {

/// Shuffled batches shared out among ranks, for programs with data of their own; what `duoka train` reads
/// goes through Loader.
///
/// The batches of an epoch are the same on any number of ranks: `batch_size` rows in the order of
/// epoch_order(), fewer in the last. Rank r has rows r, r + size, … of each: every row once, none repeated to
/// fill up, so a rank may have one row less than another, or none.
class DistributedSampler final {
 public:
  /// Throws ConfigError when num_rows or batch_size is below 1, StateError when rank is not in [0, size).
  DistributedSampler(int64_t num_rows, int64_t batch_size, uint64_t seed, int rank, int size);

  struct Batch {
    std::vector<int64_t> rows;  ///< Of this rank.
    int64_t num_rows = 0;       ///< Of all ranks.
  };
  /// A pure function of the arguments.
  std::vector<Batch> epoch(int64_t epoch) const;
  int64_t batches_per_epoch() const { return (num_rows_ + batch_size_ - 1) / batch_size_; }

 private:
  int64_t num_rows_, batch_size_;
  uint64_t seed_;
  int rank_, size_;
};

}  // namespace duoka::data
