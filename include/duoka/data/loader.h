// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <c10/core/Device.h>

#include "duoka/core/stream.h"
#include "duoka/data/dataset.h"
#include "duoka/data/pack.h"

namespace duoka::data {

/// What one rank gets for one update.
struct Update {
  int64_t epoch = 0;
  int64_t index = 0;  ///< Update of the epoch, from 0.
  /// One micro-stream a micro-step; as many on every rank. Streams without tokens stand at the end where
  /// there are fewer streams than ranks.
  std::vector<Stream> streams;
  int64_t num_trained = 0;       ///< Trained tokens of the update over all ranks.
  std::vector<int64_t> row_ids;  ///< Rows of this rank (RowSet::id), in stream order.
};

struct LoaderOptions {
  PackOptions pack;
  int64_t rank = 0;
  int64_t num_ranks = 1;
  at::Device device = at::kCPU;
};

/// Hands a rank its streams. The position in the data is (epoch, update) and nothing else, so a run
/// resumes exactly by asking for the update it had come to.
///
/// The next update is made ready in a thread of its own while the caller works on this one. Not for use
/// from two threads at once.
class Loader {
 public:
  /// `rows` must outlive the loader. Throws StateError on options that make no sense.
  Loader(const RowSet& rows, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Updates in `epoch`; the same on every rank. May differ a little between epochs when packing.
  int64_t num_updates(int64_t epoch);
  /// The plan of `epoch`. The last two are kept.
  std::shared_ptr<const EpochPlan> plan(int64_t epoch);
  /// Streams of update `index` of `epoch`. Starts making the next one ready (of the next epoch after the
  /// last). Throws StateError when there is no such update.
  Update get(int64_t epoch, int64_t index);

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

/// Identity of a row in one epoch of a run; keys dropout (Stream::segment_keys).
uint64_t row_key(uint64_t seed, int64_t epoch, int64_t row_id);

}  // namespace duoka::data
