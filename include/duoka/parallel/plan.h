// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "duoka/comm/mesh.h"
#include "duoka/parallel/pipeline_schedule.h"

namespace duoka::parallel {

/// How a model and its batches are spread over the cards.
struct Plan {
  /// Ranks with data of their own; 0: all that the others leave.
  int data = 0;
  /// What the data ranks share instead of each having all of it: 0 nothing, 1 optimizer state and masters, 2
  /// gradients too, 3 parameters too. Source: Rajbhandari et al., "ZeRO", arXiv:1910.02054.
  int zero_stage = 0;
  /// Ranks that share one copy; the data ranks beyond that hold further copies (hybrid sharding: share within
  /// a host, copy across hosts). Divides `data`; 0: all data ranks share one.
  int shard = 0;
  int context = 1;   ///< Ranks that share the tokens of a micro-batch.
  int tensor = 1;    ///< Ranks that share each matrix.
  int pipeline = 1;  ///< Ranks that share the layers.
  /// Of pipeline ranks: in which order each computes, how many pieces of the model it holds (more than one:
  /// interleaved), and the layers of each piece in the order of the model (empty: spread by what they cost).
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int chunks = 1;
  std::vector<int64_t> split = {};
};

/// `plan` with every number known, checked against `num_ranks` before a card is touched.
/// Throws ConfigError that names the numbers and what would fit.
Plan resolve(const Plan& plan, int num_ranks);

/// The grid of ranks for a resolved plan. With ZeRO the data ranks are shard x data, else data alone.
comm::MeshShape mesh_shape(const Plan& plan);

/// "data 2 x tensor 2, ZeRO-1" for the start-up lines; "one rank" when there is nothing parallel. `plan` is
/// resolved.
std::string describe(const Plan& plan);

}  // namespace duoka::parallel
