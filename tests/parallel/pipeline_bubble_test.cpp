// SPDX-License-Identifier: Apache-2.0
// How long ranks of a pipeline are idle, in real runs of the engine, against the formula of each schedule.
#include <gtest/gtest.h>

#include "parallel/sleeping_pipeline.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

constexpr int num_ranks = 4, num_micro = 8;

double measured(PipelineSchedule schedule, int num_chunks, const test::SleepTimes& times) {
  const testing::TemporaryFolder folder;
  test::run_ranks(num_ranks, [&](const comm::Group& group) {
    test::run_sleeping_pipeline(schedule, num_chunks, num_micro, times, group, folder.path());
  });
  return test::idle_share(folder / "trace.json", num_ranks);
}

class PipelineBubble : public ::testing::TestWithParam<PipelineSchedule> {};
INSTANTIATE_TEST_SUITE_P(Schedules, PipelineBubble,
                         ::testing::Values(PipelineSchedule::gpipe,
                                           PipelineSchedule::one_forward_one_backward,
                                           PipelineSchedule::interleaved, PipelineSchedule::zero_bubble),
                         [](const auto& test) { return std::string("as_") + schedule_name(test.param); });

/// One rank after the other would be idle for 0.75. A machine with other work makes waits longer, never
/// shorter, by so many milliseconds: one run that is near enough will do, and each further one sleeps longer.
TEST_P(PipelineBubble, IsThatOfTheFormula) {
  const int num_chunks = GetParam() == PipelineSchedule::interleaved ? 2 : 1;
  test::SleepTimes times;
  const double wanted = test::idle_share_by_formula(GetParam(), num_chunks, num_micro, num_ranks, times);
  double least = 1;
  for (int attempt = 0; attempt < 5 && least > wanted + 0.04; ++attempt) {
    least = std::min(least, measured(GetParam(), num_chunks, times));
    for (auto* time : {&times.forward, &times.backward_input, &times.backward_weight}) *time *= 2;
  }
  EXPECT_LT(least, wanted + 0.04);
  EXPECT_GT(least, wanted - 0.02);
}

}  // namespace
}  // namespace duoka::parallel
