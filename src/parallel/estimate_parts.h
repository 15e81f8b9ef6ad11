// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "duoka/comm/mesh.h"
#include "duoka/parallel/estimate.h"
#include "parallel/gradient_sums.h"

// The parts of estimate(): memory, traffic, and what both ask.

namespace duoka::parallel {

/// The part of a model that one rank holds, of tensors without memory, and what the engine would know of it.
struct Outline {
  model::Decoder decoder;
  std::vector<LayerRange> layers;  ///< As RankEstimate::layers.
  int place = 0;                   ///< On the pipeline.
  int64_t lowest_stage = 0;        ///< Of its chain: below it nothing is walked back.
  int lowest_piece = 0;            ///< Of the pipeline's: the first with something to train.
  SumGroups groups = {};           ///< Solo ones; they tell parameters apart, see make_buckets().

  Chain& chain() { return decoder.chain(); }
  int64_t num_stages() { return static_cast<int64_t>(chain().layers.size()); }
  /// Stages of the chain that are chunk `chunk`, without the objective.
  LayerRange chunk(size_t chunk) const;
  /// The same with the objective, where it is here.
  LayerRange chunk_with_objective(size_t chunk) const;
  /// Those of each chunk, one chunk after the other: as the engine makes its sums.
  std::vector<GradientBucket> buckets(int64_t bucket_bytes);
  /// The block at a stage; null where that is the embedding.
  model::Block* block_at(int64_t stage);
};

/// Everything that the formulas need.
struct Question {
  const Workload& workload;
  const Plan& plan;  ///< Resolved.
  comm::MeshShape mesh;
  int64_t value_bytes;     ///< Of one number that layers compute with…
  int64_t gradient_bytes;  ///< …and of its gradient, and of sums over many: f32 for half types.
  int64_t tokens;          ///< Of a micro-batch, those that this rank's matrices see (context axis).
  int64_t own_tokens;      ///< Of these, what goes from layer to layer (tensor axis).
  int64_t trained;         ///< Of the tokens, those with a target…
  int64_t own_trained;     ///< …and the most of them that one rank of the tensor axis has.
  PipelineLists lists;     ///< Of a pipeline.

  /// Ranks that share rows of gradients, states and parameters.
  int shard_ranks() const { return plan.zero_stage > 0 ? mesh.shard * mesh.context : 1; }
  bool has_parameter_shards() const { return plan.zero_stage == 3 && shard_ranks() > 1; }
};

/// What a block keeps and makes, in bytes.
struct BlockBytes {
  int64_t input = 0;     ///< What comes from the layer before.
  int64_t kept = 0;      ///< What its forward saves besides.
  int64_t deferred = 0;  ///< What weight gradients that are put off need.
  int64_t working = 0;   ///< What its backward makes and drops.
};
BlockBytes block_bytes(const Question& question, model::Block& block, const model::ModelConfig& config);
/// What the head makes and drops; nothing of it lives on.
int64_t head_working_bytes(const Question& question, model::Head& head, const model::ModelConfig& config);
/// Saved tensors at their most; of a pipeline over the rank's actions.
int64_t activation_bytes(const Question& question, Outline& outline);

/// Numbers of a parameter with its rows dealt out to n ranks as RowLayout does: of the rank that has most.
int64_t rows_share(const Parameter& parameter, int num_ranks);
/// Parameters that are fetched together, by the stages that use them; one stage has several of these sets.
struct FetchedSet {
  std::vector<int64_t> stages;
  int64_t share = 0;  ///< Numbers that each rank keeps.
  int64_t whole = 0;
};
std::vector<FetchedSet> fetched_sets(const Chain& chain, int num_ranks);

MemoryEstimate memory_of(const Question& question, Outline& outline);
std::vector<TrafficEstimate> traffic_of(const Question& question, Outline& outline);

}  // namespace duoka::parallel
