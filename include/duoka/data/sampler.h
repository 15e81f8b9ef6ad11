// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace duoka::data {

/// A reproducible source of random numbers: SplitMix64 (Steele, Lea, Flood 2014). The same numbers on
/// every machine and compiler, which std::shuffle and the standard distributions do not promise.
class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}
  uint64_t next();
  /// Uniform in [0, bound), without bias (Lemire 2019). bound >= 1.
  uint64_t below(uint64_t bound);

 private:
  uint64_t state_;
};

/// One 64-bit number of several; a different one, for all practical purposes, for each different list.
uint64_t mix_seeds(uint64_t a, uint64_t b, uint64_t c = 0);

/// What a random stream is drawn for, so that no two uses of one seed share numbers.
enum class SeedUse : uint64_t { row_order = 1, stream_order = 2, split = 3, row_key = 4 };

/// The order of `num_rows` rows in `epoch`: a permutation of 0..num_rows-1, a pure function of the arguments,
/// hence the same on every rank. Without `is_shuffled`: 0, 1, 2, …
///
/// Up to 2^18 rows are shuffled (Fisher-Yates) and held, 8 bytes each. Of more, a row is computed from its
/// position when it is asked for, by a Feistel network of eight rounds (Luby, Rackoff 1988), which is made as
/// wide as the number of rows needs and applied until its result is a row (Black, Rogaway 2002): no memory,
/// no time at the start, 0.1 us a row.
class RowOrder final {
 public:
  RowOrder(int64_t num_rows, uint64_t seed, int64_t epoch, bool is_shuffled = true);
  /// The row at `position`, 0 .. num_rows-1.
  int64_t operator[](int64_t position) const;

 private:
  uint64_t permuted(uint64_t x) const;

  uint64_t num_rows_ = 0;
  std::vector<int64_t> table_;        ///< Of few rows.
  std::array<uint64_t, 8> keys_{};    ///< Of many.
  int low_bits_ = 0, high_bits_ = 0;  ///< Of a position of many rows; 0 where the order is not shuffled.
};

/// A RowOrder written out: holds 8 bytes a row.
std::vector<int64_t> epoch_order(int64_t num_rows, uint64_t seed, int64_t epoch, bool is_shuffled = true);

/// Shuffles in place with numbers of `random`.
void shuffle(std::vector<int64_t>& values, SplitMix& random);

}  // namespace duoka::data
