// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "duoka/comm/group.h"
#include "duoka/core/layer.h"

namespace duoka::parallel {

/// Sums over micro-batches: loss / trained tokens is the mean loss.
struct LossSums {
  double loss_sum = 0;
  int64_t num_trained = 0;
  double mean() const { return num_trained > 0 ? loss_sum / static_cast<double>(num_trained) : 0; }
  LossSums& operator+=(const LossSums& other) {
    loss_sum += other.loss_sum;
    num_trained += other.num_trained;
    return *this;
  }
};

/// Loss sums of `chain`, whole on each rank, over all ranks' `streams` (any number on each rank, also none).
/// Nothing is kept for a backward and no gradient touched. Collective over `data`. For a model with nothing
/// to train; else Engine::evaluate().
LossSums evaluate(Chain& chain, std::span<const Stream> streams, const comm::Group& data);

}  // namespace duoka::parallel
