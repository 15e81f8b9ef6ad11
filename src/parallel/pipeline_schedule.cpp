// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/pipeline_schedule.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::parallel {

namespace {

using Kind = PipelineAction::Kind;
using Actions = std::vector<PipelineAction>;

void check(const PipelineShape& shape) {
  if (shape.num_ranks < 1 || shape.num_micro < 0 || shape.num_chunks < 1)
    throw ConfigError(text("a pipeline of ", shape.num_ranks, " ranks, ", shape.num_micro,
                           " micro-batches and ", shape.num_chunks,
                           " stages a rank; wanted at least 1 rank, 0 micro-batches and 1 stage"));
  if (shape.num_chunks > 1 && shape.schedule != PipelineSchedule::interleaved)
    throw ConfigError(text("pipeline_schedule ", schedule_name(shape.schedule), " has one stage a rank, but ",
                           shape.num_chunks, " are asked for; set pipeline_schedule to interleaved"));
}

Actions all_micro(Kind kind, int num_micro) {
  Actions actions;
  for (int micro = 0; micro < num_micro; ++micro) actions.push_back({kind, micro, 0});
  return actions;
}

/// `ahead` forwards, then a forward and a backward in turn, then the backwards that are left.
Actions in_turn(const Actions& forwards, const Actions& backwards, size_t ahead) {
  Actions actions(forwards.begin(),
                  forwards.begin() + static_cast<int64_t>(std::min(ahead, forwards.size())));
  for (size_t i = 0; i < backwards.size(); ++i) {
    if (ahead + i < forwards.size()) actions.push_back(forwards[ahead + i]);
    actions.push_back(backwards[i]);
  }
  return actions;
}

Actions gpipe(const PipelineShape& shape) {
  Actions actions = all_micro(Kind::forward, shape.num_micro);
  std::ranges::copy(all_micro(Kind::backward, shape.num_micro), std::back_inserter(actions));
  return actions;
}

/// Micro-batches in groups of p or a few more, which pass a rank's chunks together: chunk by chunk, each for
/// the whole group. In a smaller group the first micro-batch would come round to a rank that has nothing to
/// do until then; so what is over is spread, the larger groups first: a later one that is larger would need
/// more forwards ahead.
std::vector<int> group_sizes(const PipelineShape& shape) {
  const int num_groups = std::max(1, shape.num_micro / shape.num_ranks);
  std::vector<int> sizes(static_cast<size_t>(num_groups), shape.num_micro / num_groups);
  for (int i = 0; i < shape.num_micro % num_groups; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

Actions interleaved(const PipelineShape& shape, int rank) {
  Actions forwards;
  Actions backwards;
  const std::vector<int> sizes = group_sizes(shape);
  for (int first = 0; const int size : sizes) {
    for (int chunk = 0; chunk < shape.num_chunks; ++chunk)
      for (int micro = first; micro < first + size; ++micro) {
        forwards.push_back({Kind::forward, micro, chunk});
        backwards.push_back({Kind::backward, micro, shape.num_chunks - 1 - chunk});
      }
    first += size;
  }
  // The last rank turns round as soon as the first micro-batch has come to its last chunk. Each rank before
  // it needs one forward more to fill the step until the gradient comes back to it, and with chunks a second
  // one, for the step by which that micro-batch comes later to the last rank than to it.
  const int steps = shape.num_ranks - 1 - rank;
  const int ahead = shape.num_chunks == 1 ? steps : 2 * steps + (shape.num_chunks - 1) * sizes.front();
  return in_turn(forwards, backwards, static_cast<size_t>(ahead));
}

/// A rank's place is how many gradients of weights it puts off: those it has not had time for when the ranks
/// above are still to send it the next gradient.
Actions zero_bubble(const PipelineShape& shape, int rank) {
  const Actions base =
      in_turn(all_micro(Kind::forward, shape.num_micro), all_micro(Kind::backward_input, shape.num_micro),
              static_cast<size_t>(shape.num_ranks - 1 - rank));
  Actions actions;
  int next = 0;
  for (const PipelineAction& action : base) {
    actions.push_back(action);
    if (action.kind == Kind::backward_input && action.micro >= rank)
      actions.push_back({Kind::backward_weight, next++, 0});
  }
  while (next < shape.num_micro) actions.push_back({Kind::backward_weight, next++, 0});
  return actions;
}

Actions actions_of(const PipelineShape& shape, int rank) {
  switch (shape.schedule) {
    case PipelineSchedule::gpipe:
      return gpipe(shape);
    case PipelineSchedule::one_forward_one_backward:
    case PipelineSchedule::interleaved:
      return interleaved(shape, rank);
    case PipelineSchedule::zero_bubble:
      return zero_bubble(shape, rank);
  }
  throw StateError("unknown pipeline schedule");
}

}  // namespace

const char* schedule_name(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::gpipe:
      return "gpipe";
    case PipelineSchedule::one_forward_one_backward:
      return "1f1b";
    case PipelineSchedule::interleaved:
      return "interleaved";
    case PipelineSchedule::zero_bubble:
      return "zero_bubble";
  }
  throw StateError("unknown pipeline schedule");
}

const char* action_name(PipelineAction::Kind kind) {
  constexpr std::array names = {"forward", "backward", "backward_input", "backward_weight"};
  return names.at(static_cast<size_t>(kind));
}

PipelineLists pipeline_lists(const PipelineShape& shape) {
  check(shape);
  PipelineLists lists;
  for (int rank = 0; rank < shape.num_ranks; ++rank) lists.push_back(actions_of(shape, rank));
  return lists;
}

PipelineLists only_forwards(const PipelineLists& lists) {
  PipelineLists forwards(lists.size());
  for (size_t rank = 0; rank < lists.size(); ++rank)
    std::ranges::copy_if(lists[rank], std::back_inserter(forwards[rank]),
                         [](const PipelineAction& action) { return action.kind == Kind::forward; });
  return forwards;
}

}  // namespace duoka::parallel
