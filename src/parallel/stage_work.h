// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "parallel/gradient_sums.h"
#include "parallel/parameter_shards.h"
#include "parallel/trace.h"
#include "parallel/walk.h"

namespace duoka::parallel {

/// What goes with a walk along a whole chain: parameters are fetched a stage ahead where they are sharded,
/// sums of gradients are started behind it, and each stage is a span of the trace.
class StageWork final : public WalkObserver {
 public:
  /// shards, trace: may be null. lowest_stage: where the way back ends.
  StageWork(ParameterShards* shards, GradientSums* sums, TraceFile* trace, int64_t num_layers,
            int64_t lowest_stage)
      : shards_(shards), sums_(sums), trace_(trace), num_layers_(num_layers), lowest_stage_(lowest_stage) {}

  /// For the trace.
  void set_micro(int64_t micro) { micro_ = micro; }

  void before(int64_t stage, bool is_way_back) override;
  void after(int64_t stage, bool is_way_back) override;

 private:
  ParameterShards* shards_;
  GradientSums* sums_;
  TraceFile* trace_;
  int64_t num_layers_, lowest_stage_;
  int64_t micro_ = -1;
  TraceFile::Clock::time_point start_;
};

}  // namespace duoka::parallel
