// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "parallel/gradient_sums.h"
#include "parallel/parameter_shards.h"
#include "parallel/trace.h"
#include "parallel/walk.h"

namespace duoka::parallel {

/// What goes with a walk along some stages: parameters are fetched a stage ahead where they are sharded, sums
/// of gradients are started behind it, and each stage is a span of the trace.
class StageWork final : public WalkObserver {
 public:
  struct Way {
    int64_t top = 0;         ///< Where the way there ends…
    int64_t bottom = 0;      ///< …and the way back.
    int64_t following = -1;  ///< Stage that is walked next when an end is reached; -1: none that is known.
    TraceLabels labels = {};
    bool has_spans = true;  ///< False where the caller notes the walk as a whole.
  };
  /// shards: null where parameters are whole. sums: told of each stage of the way back; null: of none. trace:
  /// may be null.
  StageWork(ParameterShards* shards, GradientSums* sums, TraceFile* trace, const Way& way)
      : shards_(shards), sums_(sums), trace_(trace), way_(way) {}

  /// For the trace.
  void set_micro(int64_t micro) { way_.labels.micro = micro; }

  void before(int64_t stage, bool is_way_back) override;
  void after(int64_t stage, bool is_way_back) override;

 private:
  TraceLabels labels(int64_t stage) const;

  ParameterShards* shards_;
  GradientSums* sums_;
  TraceFile* trace_;
  Way way_;
  TraceFile::Clock::time_point start_;
};

}  // namespace duoka::parallel
