// SPDX-License-Identifier: Apache-2.0
#include "parallel/stage_work.h"

namespace duoka::parallel {

TraceLabels StageWork::labels(int64_t stage) const {
  TraceLabels labels = way_.labels;
  labels.layer = stage;
  return labels;
}

void StageWork::before(int64_t stage, bool is_way_back) {
  if (shards_ != nullptr) {
    const TransferLabels scope(trace_, labels(stage));
    shards_->acquire(stage);
    const bool is_end = stage == (is_way_back ? way_.bottom : way_.top);
    const int64_t next = is_end ? way_.following : is_way_back ? stage - 1 : stage + 1;
    if (next >= 0) shards_->prefetch(next);
  }
  if (trace_ != nullptr) start_ = TraceFile::Clock::now();
}

void StageWork::after(int64_t stage, bool is_way_back) {
  if (trace_ != nullptr && way_.has_spans)
    trace_->add(is_way_back ? "backward" : "forward", labels(stage), start_, TraceFile::Clock::now());
  if (shards_ != nullptr) {
    shards_->release(stage);
    // Where the way turns round the stage is its own next one, which was not to be fetched while it was
    // there.
    if (way_.following == stage) shards_->prefetch(stage);
  }
  if (is_way_back && sums_ != nullptr) sums_->complete(stage);
}

}  // namespace duoka::parallel
