// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/pipeline_schedule.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using Kind = PipelineAction::Kind;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto gpipe = PipelineSchedule::gpipe;
constexpr auto one_f_one_b = PipelineSchedule::one_forward_one_backward;
constexpr auto interleaved = PipelineSchedule::interleaved;
constexpr auto zero_bubble = PipelineSchedule::zero_bubble;

std::string name(const PipelineShape& shape) {
  return text(schedule_name(shape.schedule), " p=", shape.num_ranks, " m=", shape.num_micro,
              " v=", shape.num_chunks);
}

void for_each_shape(const std::function<void(const PipelineShape&)>& body) {
  for (const auto schedule : {gpipe, one_f_one_b, interleaved, zero_bubble})
    for (int p = 1; p <= 8; ++p)
      for (int m = 0; m <= 16; ++m)
        for (int v = 1; v <= (schedule == interleaved ? 3 : 1); ++v) {
          const PipelineShape shape{schedule, p, m, v};
          SCOPED_TRACE(name(shape));
          body(shape);
        }
}

/// Every stage with the same times of forward and of the two parts of backward.
StageTimes equal_times(const PipelineShape& shape, double forward = 1, double input = 1, double weight = 1) {
  const auto stages = static_cast<size_t>(shape.num_stages());
  return {std::vector<double>(stages, forward), std::vector<double>(stages, input),
          std::vector<double>(stages, weight)};
}

PipelineTimeline timeline(const PipelineShape& shape) {
  return simulate(pipeline_lists(shape), equal_times(shape));
}

/// Idle time of a rank over the time it computes; the same for all ranks where all stages are equal.
double bubble(const PipelineShape& shape) {
  const double ideal = 3.0 * shape.num_micro * shape.num_chunks;
  return timeline(shape).makespan / ideal - 1;
}

/// Ranks that run their lists with receives that block and sends that do not. Each way between two stages of
/// neighbouring ranks is a queue, as with NCCL, which knows no tags: what is wanted must come next.
class Ranks {
 public:
  explicit Ranks(const PipelineShape& shape)
      : shape_(shape), lists_(pipeline_lists(shape)), next_(lists_.size()) {}

  /// Number of actions done when none can go on.
  size_t run() {
    size_t done = 0;
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (int rank = 0; rank < shape_.num_ranks; ++rank)
        for (; step(rank); ++done) has_moved = true;
    }
    return done;
  }

 private:
  using Way = std::tuple<int, int, bool>;  // from stage, to stage, is it a wrap (wires of its own)

  bool step(int rank) {
    auto& next = next_[static_cast<size_t>(rank)];
    const auto& list = lists_[static_cast<size_t>(rank)];
    if (next == list.size()) return false;
    const PipelineAction& action = list[next];
    const int stage = action.chunk * shape_.num_ranks + rank;
    if (action.kind != Kind::backward_weight) {
      const int direction = action.kind == Kind::forward ? 1 : -1;
      if (!receive(stage - direction, stage, action.micro)) return false;
      send(stage, stage + direction, action.micro);
    }
    ++next;
    return true;
  }
  bool exists(int stage) const { return stage >= 0 && stage < shape_.num_stages(); }
  /// All stages of two neighbouring ranks share the wires of a direction, but those of the way from the last
  /// rank to the first have their own.
  Way way(int from, int to) const {
    const int p = shape_.num_ranks;
    return {from % p, to < from ? -1 : 1, from / p != to / p};
  }
  bool receive(int from, int to, int micro) {
    if (!exists(from)) return true;
    auto& queue = queues_[way(from, to)];
    if (queue.empty()) return false;
    EXPECT_EQ(queue.front(), std::pair(micro, to)) << "not what comes next";
    queue.pop_front();
    return true;
  }
  void send(int from, int to, int micro) {
    if (exists(to)) queues_[way(from, to)].emplace_back(micro, to);
  }

  PipelineShape shape_;
  PipelineLists lists_;
  std::vector<size_t> next_;
  std::map<Way, std::deque<std::pair<int, int>>> queues_;
};

TEST(PipelineSchedule, EveryRankDoesEachThingOnceAndInOrder) {
  for_each_shape([](const PipelineShape& shape) {
    const bool is_split = shape.schedule == zero_bubble;
    for (const auto& list : pipeline_lists(shape)) {
      std::map<std::pair<int, int>, std::vector<Kind>> kinds;
      std::map<std::pair<Kind, int>, int> next_micro;
      for (const auto& action : list) {
        kinds[{action.micro, action.chunk}].push_back(action.kind);
        EXPECT_EQ(action.micro, (next_micro[{action.kind, action.chunk}]++)) << "not in ascending order";
      }
      EXPECT_EQ(kinds.size(), static_cast<size_t>(shape.num_micro * shape.num_chunks));
      const std::vector<Kind> wanted =
          is_split ? std::vector{Kind::forward, Kind::backward_input, Kind::backward_weight}
                   : std::vector{Kind::forward, Kind::backward};
      for (const auto& [place, found] : kinds) {
        EXPECT_EQ(found, wanted);
        EXPECT_TRUE(place.first >= 0 && place.first < shape.num_micro);
        EXPECT_TRUE(place.second >= 0 && place.second < shape.num_chunks);
      }
    }
  });
}

TEST(PipelineSchedule, NobodyWaitsForEverAndMessagesComeInOrder) {
  for_each_shape([](const PipelineShape& shape) {
    size_t wanted = 0;
    for (const auto& list : pipeline_lists(shape)) wanted += list.size();
    EXPECT_EQ(Ranks(shape).run(), wanted);
  });
}

TEST(PipelineSchedule, NothingStartsBeforeWhatItNeeds) {
  for_each_shape([](const PipelineShape& shape) {
    const auto lists = pipeline_lists(shape);
    const auto times = equal_times(shape, 1, 2, 3);
    const auto found = simulate(lists, times);
    std::map<std::tuple<Kind, int, int>, double> start;  // by kind, micro-batch, stage
    for (size_t rank = 0; rank < lists.size(); ++rank) {
      double free = 0;
      for (size_t i = 0; i < lists[rank].size(); ++i) {
        const auto& [kind, micro, chunk] = lists[rank][i];
        const double at = found.starts[rank][i];
        EXPECT_GE(at, free) << "two at a time on rank " << rank;
        free = at + (kind == Kind::forward          ? 1
                     : kind == Kind::backward       ? 5
                     : kind == Kind::backward_input ? 2
                                                    : 3);
        start[{kind, micro, chunk * shape.num_ranks + static_cast<int>(rank)}] = at;
      }
      EXPECT_LE(free, found.makespan);
    }
    const Kind back = shape.schedule == zero_bubble ? Kind::backward_input : Kind::backward;
    const double length = back == Kind::backward ? 5 : 2;
    for (const auto& [what, at] : start) {
      const auto& [kind, micro, stage] = what;
      if (kind == Kind::forward && stage > 0) {
        EXPECT_GE(at, (start.at({kind, micro, stage - 1}) + 1));
      }
      if (kind == back) {
        EXPECT_GE(at, (start.at({Kind::forward, micro, stage}) + 1));
      }
      if (kind == back && stage + 1 < shape.num_stages()) {
        EXPECT_GE(at, (start.at({back, micro, stage + 1}) + length));
      }
      if (kind == Kind::backward_weight) {
        EXPECT_GE(at, (start.at({back, micro, stage}) + length));
      }
    }
  });
}

TEST(PipelineSchedule, IdleTimeIsThatOfTheFormulas) {
  for_each_shape([](const PipelineShape& shape) {
    const auto [schedule, p, m, v] = shape;
    // An interleaved micro-batch that comes round before the group is through would wait, and does so when m
    // < p.
    if (m == 0 || (m < p && (schedule == interleaved || schedule == zero_bubble))) return;
    // ZB-H1: (p - 1)(F + B - W), a third of the (p - 1)(F + B + W) of 1F1B where the three are equal.
    const double wanted = (p - 1.0) / (v * m) / (schedule == zero_bubble ? 3 : 1);
    EXPECT_NEAR(bubble(shape), wanted, 1e-12);
    const double makespan = timeline(shape).makespan;
    for (const double idle : timeline(shape).idle_share) EXPECT_NEAR(idle, 1 - 3.0 * m * v / makespan, 1e-12);
  });
}

TEST(PipelineSchedule, FewMicroBatchesCostNoMoreThanTheyMust) {
  for (int p = 2; p <= 8; ++p)
    for (int m = 1; m < p; ++m) {
      // The last micro-batch goes there and back: (p - 1)(F + B) beside m (F + B) + W for itself.
      EXPECT_EQ(timeline({zero_bubble, p, m}).makespan, 2 * (p - 1) + 2 * m + 1) << p << " " << m;
      // The first comes round v - 1 times, p steps each.
      for (int v = 1; v <= 3; ++v)
        EXPECT_EQ(timeline({interleaved, p, m, v}).makespan, 3 * ((v - 1) * p + m + p - 1)) << p << " " << m;
    }
}

TEST(PipelineSchedule, ActivationsAliveAreThoseOfThePapers) {
  for_each_shape([](const PipelineShape& shape) {
    const auto [schedule, p, m, v] = shape;
    const auto alive = timeline(shape).most_alive;
    for (int rank = 0; rank < p; ++rank) {
      const int found = alive[static_cast<size_t>(rank)];
      if (schedule == gpipe) {
        EXPECT_EQ(found, m);
      }
      if (schedule == one_f_one_b || (schedule == interleaved && v == 1)) {
        EXPECT_EQ(found, std::min(m, p - rank));
      }
      if (schedule == zero_bubble) {
        EXPECT_EQ(found, std::min(m, p));
      }
      if (schedule == interleaved && v > 1 && m > 0 && m % p == 0) {
        EXPECT_EQ(found, std::min(m * v, (v - 1) * p + 2 * (p - 1 - rank) + 1));
      }
    }
  });
}

TEST(PipelineSchedule, TransfersAndUnequalStagesTakeTheirTime) {
  const PipelineShape shape{one_f_one_b, 2, 1};
  StageTimes times{{1, 2}, {3, 4}, {5, 6}, 0.5};
  // There, over, there and back, over, back.
  EXPECT_EQ(simulate(pipeline_lists(shape), times).makespan, 1 + 0.5 + 2 + 4 + 6 + 0.5 + 3 + 5);
  EXPECT_EQ(simulate(pipeline_lists({zero_bubble, 2, 1}), times).makespan, 1 + 0.5 + 2 + 4 + 0.5 + 3 + 5);
  times = {{1}, {1}, {1}, 100};
  EXPECT_EQ(simulate(pipeline_lists({gpipe, 1, 4}), times).makespan, 12) << "one rank sends nothing";
}

TEST(PipelineSchedule, OrdersThatCannotEndAreRefused) {
  const PipelineAction forward{Kind::forward, 0, 0};
  const PipelineAction backward{Kind::backward, 0, 0};
  const StageTimes times = equal_times({gpipe, 2, 1});
  EXPECT_THAT(testing::message_of<StateError>([&] {
                simulate({{forward, backward}, {backward, forward}}, times);
              }),
              HasSubstr("rank 0 would wait for ever for the input of its action 1"));
  EXPECT_THROW(simulate({{forward}}, StageTimes{{1}, {1}, {}}), StateError);
  EXPECT_THROW(simulate({{{Kind::forward, 0, 1}}, {}}, times), StateError);
}

TEST(PipelineSchedule, ForwardsAloneKeepTheirOrder) {
  for_each_shape([](const PipelineShape& shape) {
    const auto lists = only_forwards(pipeline_lists(shape));
    const auto found = simulate(lists, equal_times(shape));
    const auto [schedule, p, m, v] = shape;
    if (m >= p) {
      EXPECT_EQ(found.makespan, m * v + p - 1);
    }
  });
}

TEST(PipelineSchedule, NumbersThatDoNotFitAreNamed) {
  EXPECT_THAT(
      testing::message_of<ConfigError>([] {
        pipeline_lists({one_f_one_b, 2, 4, 2});
      }),
      AllOf(HasSubstr("pipeline_schedule 1f1b has one stage a rank, but 2"), HasSubstr("interleaved")));
  EXPECT_THROW(pipeline_lists({gpipe, 0, 4}), ConfigError);
  EXPECT_THROW(pipeline_lists({gpipe, 2, -1}), ConfigError);
  EXPECT_THROW(pipeline_lists({interleaved, 2, 1, 0}), ConfigError);
}

}  // namespace
}  // namespace duoka::parallel
