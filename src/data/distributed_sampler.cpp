// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/distributed_sampler.h"

#include <algorithm>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/data/sampler.h"

namespace duoka::data {

DistributedSampler::DistributedSampler(int64_t num_rows, int64_t batch_size, uint64_t seed, int rank,
                                       int size)
    : num_rows_(num_rows), batch_size_(batch_size), seed_(seed), rank_(rank), size_(size) {
  if (num_rows < 1 || batch_size < 1)
    throw ConfigError(text("batches of ", batch_size, " of ", num_rows, " rows; wanted at least 1 of each"));
  if (rank < 0 || rank >= size)
    throw StateError(text("a sampler for rank ", rank, " of ", size, "; wanted 0 to size - 1"));
}

std::vector<DistributedSampler::Batch> DistributedSampler::epoch(int64_t epoch) const {
  const std::vector<int64_t> order = epoch_order(num_rows_, seed_, epoch);
  std::vector<Batch> batches;
  for (int64_t begin = 0; begin < num_rows_; begin += batch_size_) {
    const int64_t end = std::min(begin + batch_size_, num_rows_);
    Batch batch{.rows = {}, .num_rows = end - begin};
    for (int64_t i = begin + rank_; i < end; i += size_) batch.rows.push_back(order[static_cast<size_t>(i)]);
    batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace duoka::data
