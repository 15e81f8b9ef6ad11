// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Who computes what, and when, under pipeline parallelism: pure functions, known alike to every rank.
//
// The model is cut into p * v stages of neighbouring layers. Rank r of p holds v of them, its chunks: chunk c
// is stage c * p + r, so that a micro-batch goes round the ranks v times.

namespace duoka::parallel {

enum class PipelineSchedule {
  /// All forwards, then all backwards. Huang et al., arXiv:1811.06965. Activations of all m micro-batches are
  /// alive.
  gpipe,
  /// A rank goes back as soon as it can: no more than p - rank micro-batches are alive. PipeDream-flush,
  /// "1F1B" in
  /// Narayanan et al., arXiv:2104.04473.
  one_forward_one_backward,
  /// The same with v chunks a rank: a v-th of the idle time for v times the messages. arXiv:2104.04473, 2.2.
  interleaved,
  /// 1F1B whose gradients of weights are put off into time that were idle; no more than p micro-batches are
  /// alive.
  /// ZB-H1 in Qi et al., arXiv:2401.10241.
  zero_bubble
};
/// As the user's key `pipeline_schedule` has it: "gpipe", "1f1b", "interleaved", "zero_bubble".
const char* schedule_name(PipelineSchedule schedule);

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int num_ranks = 1;
  int num_micro = 1;   ///< Micro-batches of one update; also none.
  int num_chunks = 1;  ///< v; more than 1 with `interleaved` only.

  int num_stages() const { return num_ranks * num_chunks; }
};

struct PipelineAction {
  enum class Kind {
    forward,
    backward,        ///< Gradient by the input and by the weights.
    backward_input,  ///< By the input, which the stage below waits for…
    backward_weight  ///< …and by the weights, which nobody does.
  };
  Kind kind = Kind::forward;
  int micro = 0;
  int chunk = 0;

  bool operator==(const PipelineAction&) const = default;
};

/// "forward", "backward", "backward_input", "backward_weight".
const char* action_name(PipelineAction::Kind kind);

/// What each rank does, in this order: lists[rank].
using PipelineLists = std::vector<std::vector<PipelineAction>>;

/// The lists of one update. Nobody waits for ever when a rank waits for each action's input and never for
/// what it sends, and between two stages messages are wanted in the order in which they are sent. A stage's
/// backwards go through the micro-batches in ascending order, whatever the schedule: sums of gradients have
/// the same bits. Any number of micro-batches is right; interleaved ranks are idle for longer when it is less
/// than num_ranks. Throws ConfigError when the numbers do not fit.
PipelineLists pipeline_lists(const PipelineShape& shape);

/// Their forwards alone, in the same order: for evaluation.
PipelineLists only_forwards(const PipelineLists& lists);

/// Layers of each stage, so that the most expensive stage is as cheap as can be; of such splits the most even
/// one (least sum of squares). Exact. `costs`: of each layer, in any unit. Throws ConfigError with more
/// stages than layers.
std::vector<int64_t> stage_split(std::span<const double> costs, int num_stages);

/// Checks layers of each stage given by hand, `pipeline_split`. Throws ConfigError.
void check_split(std::span<const int64_t> layers, int64_t num_layers, int num_stages);

/// What each stage takes for one micro-batch, in any unit of time. A whole backward takes both of its parts.
struct StageTimes {
  std::vector<double> forward;
  std::vector<double> backward_input;
  std::vector<double> backward_weight;
  double transfer = 0;  ///< Of one tensor to the next rank; the ranks compute meanwhile.
};

/// How an update runs, without a card.
struct PipelineTimeline {
  double makespan = 0;
  std::vector<double> idle_share;  ///< [rank]: the part of the makespan in which it computes nothing.
  std::vector<int> most_alive;     ///< [rank]: most pairs of micro-batch and chunk that wait for a backward.
  std::vector<std::vector<double>> starts;  ///< [rank][place in its list].
};

/// Runs `lists` in list order: an action starts when its rank is free and its input is there. Throws
/// StateError when that never comes (the ranks would wait for ever), and when there is no time for a stage.
PipelineTimeline simulate(const PipelineLists& lists, const StageTimes& times);

}  // namespace duoka::parallel
