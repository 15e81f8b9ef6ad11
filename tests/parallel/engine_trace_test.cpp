// SPDX-License-Identifier: Apache-2.0
// trace.json of real ranks: what it shows is what was done.
#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/files.h"
#include "parallel/toy_training.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using Json = nlohmann::json;

/// Updates 0 and 1 under `plan` with four micro-batches each; the second is traced, as number 12.
Json trace_of(int num_ranks, const Plan& plan, int first_trained_block = -1,
              const EngineOptions& options = {}) {
  const testing::TemporaryFolder folder;
  test::ToyOptions toy = test::toy(at::kDouble, false, first_trained_block);
  toy.num_blocks = 7;
  test::run_ranks(num_ranks, [&](const comm::Group& group) {
    Layout layout(plan, group);
    layout.share_layers(test::toy_stack(toy));
    test::ToyOptions here = toy;
    here.layers = layout.layers();
    Chain chain = test::make_toy(here);
    const auto engine = assemble(chain, layout, options);
    const auto micro = test::toy_streams({0, 1, 2, 3});
    const int64_t trained = layout.data_share().size * test::count_trained(micro);
    for (const bool is_traced : {false, true}) {
      if (is_traced) engine->start_trace(folder / "new", 12);
      engine->forward_backward(micro, trained);
      engine->finish_gradients();
    }
    EXPECT_EQ(engine->stop_trace(), "");
    EXPECT_EQ(engine->trace(), nullptr);
    engine->forward_backward(micro, trained);  // not noted any more
  });
  EXPECT_THAT(testing::names_in(folder / "new"), ::testing::ElementsAre("trace.json"));
  return Json::parse(read_text_file(folder / "new/trace.json"));
}

/// Spans of a rank by their start, those whose name `is_wanted`.
template <class IsWanted>
std::vector<Json> spans_of(const Json& trace, int rank, IsWanted is_wanted) {
  std::vector<Json> found;
  for (const Json& event : trace)
    if (event.at("ph") == "X" && event.at("pid") == rank && is_wanted(event.at("name").get<std::string>()))
      found.push_back(event);
  std::ranges::stable_sort(found, {}, [](const Json& span) { return span.at("ts").get<double>(); });
  return found;
}

bool is_action(const std::string& name) {
  return name.starts_with("forward") || name.starts_with("backward");
}

class PipelineTrace : public ::testing::TestWithParam<PipelineSchedule> {};
INSTANTIATE_TEST_SUITE_P(Schedules, PipelineTrace,
                         ::testing::Values(PipelineSchedule::gpipe,
                                           PipelineSchedule::one_forward_one_backward,
                                           PipelineSchedule::interleaved, PipelineSchedule::zero_bubble),
                         [](const auto& test) { return std::string("as_") + schedule_name(test.param); });

TEST_P(PipelineTrace, ShowsTheListOfEachRank) {
  constexpr int num_ranks = 4, num_micro = 4;
  const int num_chunks = GetParam() == PipelineSchedule::interleaved ? 2 : 1;
  const Json trace =
      trace_of(num_ranks, {.pipeline = num_ranks, .schedule = GetParam(), .chunks = num_chunks});
  const PipelineLists lists = pipeline_lists({GetParam(), num_ranks, num_micro, num_chunks});
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto spans = spans_of(trace, rank, is_action);
    const auto& list = lists[static_cast<size_t>(rank)];
    ASSERT_EQ(spans.size(), list.size()) << "rank " << rank;
    for (size_t i = 0; i < list.size(); ++i) {
      EXPECT_EQ(spans[i].at("name"), action_name(list[i].kind)) << "rank " << rank << ", action " << i;
      EXPECT_EQ(
          spans[i].at("args"),
          (Json{{"update", 12}, {"micro", list[i].micro}, {"stage", list[i].chunk * num_ranks + rank}}));
    }
  }
}

/// Each gradient and each activation is shown where it came to, and by whom it was waited for.
TEST_P(PipelineTrace, ShowsWhatComesFromNeighbours) {
  constexpr int num_ranks = 2, num_micro = 4;
  const int num_chunks = GetParam() == PipelineSchedule::interleaved ? 2 : 1;
  const Json trace =
      trace_of(num_ranks, {.pipeline = num_ranks, .schedule = GetParam(), .chunks = num_chunks});
  int num_received = 0, num_sent = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    num_received += static_cast<int>(spans_of(trace, rank, [](const std::string& name) {
                                       return name.starts_with("wait for receive, pipeline");
                                     }).size());
    for (const Json& event : trace)
      if (event.at("ph") == "b" && event.at("pid") == rank &&
          event.at("name").get<std::string>().starts_with("send, pipeline")) {
        EXPECT_TRUE(event.at("args").contains("micro"));
        EXPECT_NE(event.at("args").at("stage").get<int>() % num_ranks, rank);  // the one it goes to
        ++num_sent;
      }
  }
  const int num_borders = num_ranks * num_chunks - 1;
  EXPECT_EQ(num_received, 2 * num_borders * num_micro);
  EXPECT_EQ(num_sent, num_received);
}

/// Blocks from the sixth on train: ranks below do nothing on the way back, and nothing is sent to them.
/// back.
TEST_P(PipelineTrace, NothingGoesBackBelowTheLowestTrainedLayer) {
  constexpr int num_ranks = 4, num_micro = 4;
  const int num_chunks = GetParam() == PipelineSchedule::interleaved ? 2 : 1;
  Plan plan{.pipeline = num_ranks, .schedule = GetParam(), .chunks = num_chunks};
  plan.split =
      num_chunks == 1 ? std::vector<int64_t>{2, 3, 2, 3} : std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1, 3};
  constexpr int first_trained_block = 5;  // layer 6
  const int lowest = num_chunks == 1 ? 2 : 6;
  const Json trace = trace_of(num_ranks, plan, first_trained_block);
  std::map<std::string, int> count;
  for (const Json& event : trace) {
    const std::string name = event.at("name");
    if (event.at("ph") == "X" && name.starts_with("backward")) {
      EXPECT_GE(event.at("args").at("stage").get<int>(), lowest);
      ++count["backward"];
    }
    if (event.at("ph") == "b" && name.starts_with("receive, pipeline backward")) ++count["receive"];
    if (event.at("ph") == "b" && name.starts_with("send, pipeline backward")) ++count["send"];
  }
  const int num_back = num_ranks * num_chunks - lowest;
  EXPECT_EQ(count["backward"], num_back * num_micro * (GetParam() == PipelineSchedule::zero_bubble ? 2 : 1));
  EXPECT_EQ(count["receive"], (num_back - 1) * num_micro);
  EXPECT_EQ(count["send"], count["receive"]);
}

/// The upper chunk's sums are on their way while the lower one still computes.
TEST(EngineTrace, SumsOfAChunkStartWhenItsLastBackwardIsDone) {
  const Plan plan{.pipeline = 2, .schedule = PipelineSchedule::interleaved, .chunks = 2};
  const Json trace = trace_of(4, plan, -1, {.bucket_bytes = 1});
  for (int rank = 0; rank < 4; ++rank) {
    const auto backwards = spans_of(trace, rank, [](const std::string& name) { return name == "backward"; });
    const double last = backwards.back().at("ts");
    int early = 0, late = 0;
    for (const Json& event : trace)
      if (event.at("ph") == "b" && event.at("pid") == rank &&
          event.at("name").get<std::string>().starts_with("all_reduce"))
        ++(event.at("ts").get<double>() < last ? early : late);
    EXPECT_GE(early, 2) << "rank " << rank;
    EXPECT_GE(late, 1) << "rank " << rank;
  }
}

TEST(EngineTrace, ShowsLayersGathersAndReductions) {
  const Json trace = trace_of(2, {.zero_stage = 3});
  constexpr int num_micro = 4, num_layers = 9;
  for (const int rank : {0, 1}) {
    const auto spans = spans_of(trace, rank, is_action);
    std::map<std::string, int> count;
    for (const Json& span : spans) ++count[span.at("name").get<std::string>()];
    EXPECT_EQ(count["forward"], num_micro * num_layers);
    EXPECT_EQ(count["backward"], num_micro * (num_layers + 1));  // and the objective
    EXPECT_EQ(spans.front().at("args"), (Json{{"update", 12}, {"micro", 0}, {"layer", 0}}));
    for (size_t i = 1; i < spans.size(); ++i)
      EXPECT_GE(spans[i].at("ts").get<double>() + 0.002,
                spans[i - 1].at("ts").get<double>() + spans[i - 1].at("dur").get<double>())
          << "they follow each other";
    const auto num_waits = [&](const std::string& start) {
      return spans_of(trace, rank,
                      [&](const std::string& name) { return name.starts_with("wait for " + start); })
          .size();
    };
    EXPECT_GE(num_waits("all_gather"), size_t{num_micro * 2 * (num_layers - 1)});
    EXPECT_GE(num_waits("reduce_scatter"), size_t{num_micro});
  }
}

/// As where a folder is read-only: there is no trace, and the training goes on.
TEST(EngineTrace, AFolderThatCannotBeWrittenIsNoError) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "file", "");
  test::run_ranks(2, [&](const comm::Group& group) {
    Layout layout({}, group);
    Chain chain = test::make_toy();
    const auto engine = assemble(chain, layout);
    engine->start_trace(folder / "file/below");
    const auto micro = test::toy_streams({0});
    engine->forward_backward(micro, 2 * test::count_trained(micro));
    engine->finish_gradients();
    const std::string failure = engine->stop_trace();
    if (group.rank() == 0)
      EXPECT_THAT(failure, ::testing::HasSubstr("file/below"));
    else
      EXPECT_EQ(failure, "");
  });
}

}  // namespace
}  // namespace duoka::parallel
