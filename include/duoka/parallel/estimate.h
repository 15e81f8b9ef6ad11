// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "duoka/comm/traffic.h"
#include "duoka/core/layer_range.h"
#include "duoka/model/config.h"
#include "duoka/model/decoder.h"
#include "duoka/parallel/engine.h"
#include "duoka/parallel/plan.h"

// What a layout takes of memory and wires, by formula: no weights, no cards. The layers are really built, as
// each rank would, but with tensors that have shapes and no memory.

namespace duoka::parallel {

/// A training, as far as memory and traffic depend on it.
struct Workload {
  model::ModelConfig model;
  at::ScalarType dtype = at::kFloat;            ///< What the layers compute in.
  at::DeviceType device = at::DeviceType::CPU;  ///< Of the cards.
  /// Attaches adapters and marks what trains.
  std::function<void(model::Decoder& decoder)> tune;
  EngineOptions engine = {};
  int64_t optimizer_bytes =
      8;  ///< The optimizer's state for each number that trains: Optimizer::state_bytes_per_element().
  /// A micro-batch: its rows, all of one length. All of a row's tokens train but the last, which has no
  /// target.
  int64_t rows = 1;
  int64_t row_tokens = 1024;
  int64_t accumulation = 1;  ///< Micro-batches of an update for each data rank.
};

/// Bytes of tensors on one card.
struct MemoryEstimate {
  int64_t parameters = 0;   ///< Values that it keeps.
  int64_t gradients = 0;    ///< Sums, and gradients that wait for further micro-batches.
  int64_t optimizer = 0;    ///< f32 masters of half-precision values, and the optimizer's state.
  int64_t activations = 0;  ///< What layers save for their backward, at its most.
                            // Of both, what is offloaded counts with the most that is here at a time.
  int64_t gathered = 0;     ///< ZeRO-3: whole parameters of the layers at hand.
  int64_t sending = 0;      ///< Gradients made but not yet summed, and buffers on their way.
  int64_t working = 0;      ///< Logits of a chunk, and what a layer's backward makes and drops.

  /// About the peak: not all of them are at their most at one time, and wires and kernels take some of their
  /// own.
  int64_t total() const {
    return parameters + gradients + optimizer + activations + gathered + sending + working;
  }
};

/// What one card gives to one kind of collective on one axis in an update.
struct TrafficEstimate {
  std::string what;  ///< "gradients".
  std::string axis;  ///< Of the mesh, as its group is called: "shard+context".
  int num_ranks = 1;
  /// The group lies within blocks of so many neighbouring ranks: inside a host whose cards this divides.
  int span = 1;
  comm::Operation operation = comm::Operation::all_reduce;
  int64_t calls = 0;
  int64_t bytes = 0;  ///< As comm::Traffic counts them: of the buffers handed in.

  /// What the card sends in a ring, or with direct sends: the least that any algorithm does. All-reduce
  /// 2(n-1)/n of the bytes, reduce-scatter and all-to-all (n-1)/n, all-gather n-1 times, send once.
  double wire_bytes() const;
};

/// Of the ranks at one place of the pipeline the one that holds most.
struct RankEstimate {
  std::vector<LayerRange> layers;  ///< The embedding is layer 0, the head the last.
  MemoryEstimate memory;
  std::vector<TrafficEstimate> traffic;
  double idle_share =
      0;  ///< Time of an update in which it waits for the pipeline, where a backward takes two forwards.
};

struct Estimate {
  Plan plan;  ///< Resolved.
  int64_t num_parameters = 0;
  int64_t num_trained = 0;          ///< Adapters included.
  std::vector<RankEstimate> ranks;  ///< One for each place of the pipeline, first layers first.

  double idle_share() const;  ///< Over all places.
};

/// Throws ConfigError as a training would before it starts: sizes that do not divide, too few layers, nothing
/// to train. Not counted: words of a few hundred bytes (loss, norm, agreements), what is sent when a run
/// starts, evaluates and saves; memory of libtorch, CUDA, NCCL and Gloo themselves, and what an allocator
/// loses between tensors.
Estimate estimate(const Workload& workload, const Plan& plan, int num_ranks);

}  // namespace duoka::parallel
