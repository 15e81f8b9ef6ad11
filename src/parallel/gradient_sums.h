// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/comm/group.h"
#include "duoka/core/layer.h"
#include "duoka/core/layer_range.h"

namespace duoka::parallel {

/// Who holds what of a parameter, and so over whom its gradient is summed: over `shard`, whose ranks each own
/// some rows of the slice held here, and over the ranks that hold the same rows.
struct SumGroups {
  comm::Group shard;           ///< Solo where nothing is sharded.
  comm::Group slice_replicas;  ///< For parameters that tensor parallelism has cut.
  /// For the others: tensor ranks too, each of which has a part of the sum.
  comm::Group whole_replicas;
  /// For parameters that lie on several pipeline stages (a tied embedding), by name.
  std::map<std::string, comm::Group> tied_replicas = {};

  const comm::Group& replicas_of(const Parameter& parameter) const;
  bool is_tied(const Parameter& parameter) const { return tied_replicas.contains(parameter.name); }
};

/// One walk along the chain and back of those that an update makes.
struct MicroStep {
  bool is_last = true;
  /// For sums in a fixed order: how many times the two newest of the open sums are then added. See SumTree.
  int num_additions = 0;
  /// Of this rank; -1 where it is not known.
  int64_t num_tokens = -1;
};

/// How the gradients of an update become sums over micro-steps and ranks. Stages count the walk back: L
/// (number of layers) is the objective, then layers L-1 … 0. A parameter is complete after the lowest stage
/// that uses it, so a tied weight is sent after its last use.
///
/// One update: for each micro-step begin_step(), the stages from high to low, stage 0 in any case; then
/// finish().
class GradientSums {
 public:
  virtual ~GradientSums() = default;

  virtual void begin_step(const MicroStep& step) = 0;
  /// The walk back of this micro-step has done `stage`, and those above it. Starts what can be started. The
  /// order of collectives is the same on every rank.
  virtual void complete(int64_t stage) = 0;
  /// Waits for all that was started; afterwards the sums are in sum_of().
  virtual void finish() = 0;
  virtual bool is_under_way() const = 0;
  /// Whether each micro-step talks, so that all ranks must make equally many.
  virtual bool talks_each_step() const = 0;
  /// The sum for the part of `parameter` that this rank's optimizer owns: all of it, or its rows. The same
  /// memory all the time.
  virtual at::Tensor sum_of(const Parameter& parameter) const = 0;
};

/// The strategy for one of: whole sums on every rank (shard is solo), or each rank sums of its own rows.
/// each_step: reduce in each micro-step, so that no gradient outlives its layer (ZeRO-2), not only in the
/// last one. exact: add in one order whatever the number of ranks; then the last micro-step reduces in any
/// case. stages: only of parameters that are complete after one of those; a pipeline has such sums for each
/// of its chunks, whose micro-steps end at different times.
std::unique_ptr<GradientSums> make_gradient_sums(const Chain& chain, LayerRange stages,
                                                 const SumGroups& groups, int64_t bucket_bytes,
                                                 bool each_step, bool exact);

/// For each trainable parameter the lowest stage that uses it.
std::unordered_map<Parameter*, int64_t> complete_stages(const Chain& chain);
/// The lowest of them all; the largest number where nothing trains.
int64_t lowest_trained_stage(const Chain& chain);

/// Trainable parameters that are reduced together, in the order in which they become complete.
struct GradientBucket {
  std::vector<Parameter*> parameters;  ///< One dtype and device, and the same replicas.
  int64_t stage = 0;                   ///< The lowest one inside.
  /// Of a table by itself that a SplitTable may send in two parts: the lowest but one of its stages; else -1.
  int64_t head_stage = -1;

  at::TensorOptions options() const;
};
/// Whole stages of `stages`, as many neighbouring ones as fit in `bucket_bytes`; a larger stage is a bucket
/// by itself, and so is a matrix larger than that which several stages use.
std::vector<GradientBucket> make_buckets(const Chain& chain, LayerRange stages, const SumGroups& groups,
                                         int64_t bucket_bytes);

}  // namespace duoka::parallel
