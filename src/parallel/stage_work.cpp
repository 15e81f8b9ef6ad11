// SPDX-License-Identifier: Apache-2.0
#include "parallel/stage_work.h"

namespace duoka::parallel {

void StageWork::before(int64_t stage, bool is_way_back) {
  if (shards_ != nullptr) {
    const TransferLabels labels(trace_, {.micro = micro_, .layer = stage});
    shards_->acquire(stage);
    const int64_t next = is_way_back ? stage - 1 : stage + 1;
    if (next <= num_layers_ && (!is_way_back || next >= lowest_stage_)) shards_->prefetch(next);
  }
  if (trace_ != nullptr) start_ = TraceFile::Clock::now();
}

void StageWork::after(int64_t stage, bool is_way_back) {
  if (trace_ != nullptr)
    trace_->add(is_way_back ? "backward" : "forward", {.micro = micro_, .layer = stage}, start_,
                TraceFile::Clock::now());
  if (shards_ != nullptr) shards_->release(stage);
  if (is_way_back) sums_->complete(stage);
}

}  // namespace duoka::parallel
