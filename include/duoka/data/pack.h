// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "duoka/data/sampler.h"

namespace duoka::data {

/// What planning needs to know of a row.
struct RowLength {
  int32_t num_tokens = 0;   ///< At least 1.
  int32_t num_trained = 0;  ///< Tokens the loss is summed over.
};

/// The lengths of some rows, looked up when asked for.
class RowLengths final {
 public:
  RowLengths() = default;
  RowLengths(int64_t size, std::function<RowLength(int64_t)> at) : size_(size), at_(std::move(at)) {}
  /// Keeps them.
  // NOLINTNEXTLINE(google-explicit-constructor): lengths are lengths.
  RowLengths(std::vector<RowLength> lengths)
      : size_(static_cast<int64_t>(lengths.size())),
        at_([kept = std::make_shared<const std::vector<RowLength>>(std::move(lengths))](int64_t row) {
          return (*kept)[static_cast<size_t>(row)];
        }) {}

  int64_t size() const { return size_; }
  RowLength operator[](int64_t row) const { return at_(row); }

 private:
  int64_t size_ = 0;
  std::function<RowLength(int64_t)> at_;
};

struct PackOptions {
  /// true: rows are packed into streams of at most `tokens_per_stream`. false: an update takes
  /// `rows_per_stream` rows a stream in the sampler's order, and deals them to its streams so that these take
  /// about as long.
  bool is_packing = false;
  int64_t tokens_per_stream = 0;
  int64_t rows_per_stream = 1;
  /// Micro-streams in one update, over all ranks: gradient_accumulation_steps x ranks. The only way in
  /// which the number of ranks enters a plan.
  int64_t streams_per_update = 1;
  uint64_t seed = 0;
  bool is_shuffled = true;
};

/// The rows of a stream, in the order in which they are laid end to end.
using StreamRows = std::vector<int64_t>;

/// All streams of one epoch, in updates of `streams_per_update`; the last may have fewer. Each row occurs
/// exactly once: an epoch that does not divide evenly is not filled up with repeated rows.
///
/// Rank r of R takes streams r, r + R, r + 2R, … of each update; a rank may have none in the last one.
class EpochPlan {
 public:
  int64_t num_rows() const { return lengths_.size(); }
  int64_t num_streams() const;
  int64_t num_updates() const;
  /// Of all rows, which are looked at.
  int64_t num_tokens() const;
  /// The streams of update `index`. Takes about 0.1 us a row without packing.
  std::vector<StreamRows> update(int64_t index) const;
  /// Those that `rank` of `num_ranks` takes, then empty ones up to ceil(streams / num_ranks), the micro-steps
  /// of all ranks.
  std::vector<StreamRows> update_of_rank(int64_t index, int64_t rank, int64_t num_ranks) const;
  /// Rows of the epoch that come before update `index`; all of them before num_updates().
  int64_t rows_before(int64_t index) const;
  /// The last update with at most `num_rows` rows before it: where an epoch goes on of which so many rows
  /// have been trained on, in updates of whatever size. num_updates() when none are left.
  int64_t update_after(int64_t num_rows) const;
  /// Trained tokens of update `index`, over all ranks.
  int64_t num_trained(int64_t index) const;
  /// Tokens over room, 0 to 1, when each stream has room for `tokens_per_stream`.
  double fill(int64_t tokens_per_stream) const;

 private:
  friend EpochPlan plan_epoch(RowLengths lengths, const PackOptions& options, int64_t epoch);
  EpochPlan(RowLengths lengths, const PackOptions& options, RowOrder order);
  /// Rows of the epoch before stream `index`.
  int64_t start(int64_t index) const;
  /// The row at `position` of the epoch.
  int64_t row(int64_t position) const;
  std::vector<StreamRows> packed_update(int64_t index) const;
  std::vector<StreamRows> dealt_update(int64_t index) const;

  RowLengths lengths_;
  PackOptions options_;
  RowOrder order_;
  // Of packed streams:
  std::vector<uint32_t> rows_;    ///< Rows of all streams, one stream after another.
  std::vector<uint32_t> starts_;  ///< Where each stream begins in rows_, then its size.
};

/// Plans an epoch: a pure function of its arguments, so that every rank holds the same plan without
/// talking. Rows are those of `lengths`, by index.
///
/// Packing shuffles the rows, then lays windows of them (at least 4096 rows and 64 streams' worth of
/// tokens) out by best fit, long rows first, and shuffles the streams of each window: rows meet new
/// neighbours in every epoch. Without shuffling the windows and streams keep the file's order as far as
/// packing can. It holds about 5 bytes a row (16 while it is made) and takes about 0.2 us a row; without
/// packing nothing depends on the number of rows but what RowOrder says. Throws StateError when an option is
/// not positive where it must be, or a row is longer than a stream; DataError when more than 2^32 rows are
/// packed.
EpochPlan plan_epoch(RowLengths lengths, const PackOptions& options, int64_t epoch);

}  // namespace duoka::data
