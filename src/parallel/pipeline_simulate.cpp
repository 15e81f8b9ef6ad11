// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/parallel/pipeline_schedule.h"

namespace duoka::parallel {

namespace {

using Kind = PipelineAction::Kind;

constexpr double never = std::numeric_limits<double>::infinity();

int micro_batches(const PipelineLists& lists) {
  int count = 0;
  for (const auto& list : lists)
    for (const PipelineAction& action : list) count = std::max(count, action.micro + 1);
  return count;
}

class Simulation final {
 public:
  Simulation(const PipelineLists& lists, const StageTimes& times)
      : lists_(lists),
        times_(times),
        num_ranks_(static_cast<int>(lists.size())),
        num_stages_(static_cast<int>(times.forward.size())),
        forward_end_(static_cast<size_t>(micro_batches(lists)) * times.forward.size(), never),
        input_end_(forward_end_) {
    timeline_.starts.resize(lists.size());
    timeline_.most_alive.assign(lists.size(), 0);
    free_.assign(lists.size(), 0.0);
    busy_.assign(lists.size(), 0.0);
    alive_.assign(lists.size(), 0);
  }

  PipelineTimeline run() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (int rank = 0; rank < num_ranks_; ++rank)
        while (step(rank)) has_moved = true;
    }
    for (int rank = 0; rank < num_ranks_; ++rank) check_done(rank);
    for (const double end : free_) timeline_.makespan = std::max(timeline_.makespan, end);
    for (const double busy : busy_)
      timeline_.idle_share.push_back(timeline_.makespan > 0 ? 1 - busy / timeline_.makespan : 0);
    return std::move(timeline_);
  }

 private:
  /// Runs the rank's next action if its input will be there; false when it has to wait for another rank
  /// first.
  bool step(int rank) {
    const auto r = static_cast<size_t>(rank);
    auto& starts = timeline_.starts[r];
    if (starts.size() == lists_[r].size()) return false;
    const PipelineAction& action = lists_[r][starts.size()];
    const int stage = stage_of(rank, action);
    const double ready = input_there(action, stage);
    if (ready == never) return false;
    const double start = std::max(free_[r], ready);
    const double length = length_of(action.kind, static_cast<size_t>(stage));
    starts.push_back(start);
    free_[r] = start + length;
    busy_[r] += length;
    if (action.kind == Kind::forward) forward_end_[place(action.micro, stage)] = free_[r];
    if (action.kind == Kind::backward || action.kind == Kind::backward_input)
      input_end_[place(action.micro, stage)] = free_[r];
    count_alive(action.kind, r);
    return true;
  }

  double input_there(const PipelineAction& action, int stage) const {
    const double transfer = num_ranks_ > 1 ? times_.transfer : 0.0;
    switch (action.kind) {
      case Kind::forward:
        return stage == 0 ? 0.0 : forward_end_[place(action.micro, stage - 1)] + transfer;
      case Kind::backward_weight:
        return input_end_[place(action.micro, stage)];
      default:
        if (forward_end_[place(action.micro, stage)] == never) return never;
        return stage + 1 == num_stages_ ? 0.0 : input_end_[place(action.micro, stage + 1)] + transfer;
    }
  }

  double length_of(Kind kind, size_t stage) const {
    switch (kind) {
      case Kind::forward:
        return times_.forward[stage];
      case Kind::backward_input:
        return times_.backward_input[stage];
      case Kind::backward_weight:
        return times_.backward_weight[stage];
      default:
        return times_.backward_input[stage] + times_.backward_weight[stage];
    }
  }

  void count_alive(Kind kind, size_t rank) {
    if (kind == Kind::forward) ++alive_[rank];
    if (kind == Kind::backward || kind == Kind::backward_weight) --alive_[rank];
    timeline_.most_alive[rank] = std::max(timeline_.most_alive[rank], alive_[rank]);
  }

  int stage_of(int rank, const PipelineAction& action) const {
    const int stage = action.chunk * num_ranks_ + rank;
    if (action.micro < 0 || stage < rank || stage >= num_stages_)
      throw StateError(text("pipeline: micro-batch ", action.micro, ", chunk ", action.chunk, " of rank ",
                            rank, " does not exist in ", num_stages_, " stages"));
    return stage;
  }

  void check_done(int rank) const {
    const auto r = static_cast<size_t>(rank);
    const size_t next = timeline_.starts[r].size();
    if (next < lists_[r].size())
      throw StateError(text("pipeline: rank ", rank, " would wait for ever for the input of its action ",
                            next, " (micro-batch ", lists_[r][next].micro, ", chunk ", lists_[r][next].chunk,
                            ")"));
  }

  size_t place(int micro, int stage) const {
    return static_cast<size_t>(micro) * times_.forward.size() + static_cast<size_t>(stage);
  }

  const PipelineLists& lists_;
  const StageTimes& times_;
  int num_ranks_;
  int num_stages_;
  std::vector<double> forward_end_;  // [micro-batch, stage]
  std::vector<double> input_end_;    // of the gradient by the input
  std::vector<double> free_;         // [rank]: since when it has nothing to do
  std::vector<double> busy_;
  std::vector<int> alive_;
  PipelineTimeline timeline_;
};

}  // namespace

PipelineTimeline simulate(const PipelineLists& lists, const StageTimes& times) {
  const size_t num_stages = times.forward.size();
  if (lists.empty() || num_stages % lists.size() != 0 || num_stages == 0 ||
      times.backward_input.size() != num_stages || times.backward_weight.size() != num_stages)
    throw StateError(text("pipeline: times of ", num_stages, ", ", times.backward_input.size(), " and ",
                          times.backward_weight.size(), " stages for ", lists.size(),
                          " ranks; wanted the same number of each, a multiple of the ranks"));
  return Simulation(lists, times).run();
}

}  // namespace duoka::parallel
