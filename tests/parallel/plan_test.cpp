// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

TEST(Plan, TakesAllRanksUnlessToldOtherwise) {
  EXPECT_EQ(resolve({}, 4).data, 4);
  EXPECT_EQ(resolve({.data = 4}, 4).data, 4);
  EXPECT_EQ(describe(resolve({}, 4)), "data 4");
  EXPECT_EQ(describe(resolve({}, 1)), "one rank");
}

TEST(Plan, NamesBothNumbersWhenTheyDoNotFit) {
  EXPECT_THAT(testing::message_of<ConfigError>([] { resolve({.data = 3}, 2); }),
              ::testing::AllOf(::testing::HasSubstr("= 3 needs 3 ranks, but 2 are started"),
                               ::testing::HasSubstr("use 2")));
  EXPECT_THAT(
      testing::message_of<ConfigError>([] { resolve({.tensor = 2, .pipeline = 2}, 6); }),
      ::testing::HasSubstr("tensor_parallel_size 2 x pipeline_parallel_size 2 takes 4 ranks, which does not "
                           "divide the 6 started; start 4 or a multiple of 4"));
  EXPECT_THROW(resolve({.data = -1}, 2), ConfigError);
  EXPECT_THROW(resolve({}, 0), ConfigError);
  // 2^31 ranks and more: no product may run over.
  EXPECT_THROW(resolve({.context = 1 << 29, .tensor = 2, .pipeline = 4}, 8), ConfigError);
  EXPECT_THAT(
      testing::message_of<ConfigError>([] {
        resolve({.pipeline = 4096, .schedule = PipelineSchedule::interleaved, .chunks = 1'000'000'000}, 4096);
      }),
      ::testing::HasSubstr("pipeline_chunks = 1000000000; wanted at most 1024"));
  EXPECT_THROW(resolve({.context = 1 << 30, .tensor = 1 << 30, .pipeline = 1 << 30}, 8), ConfigError);
}

}  // namespace
}  // namespace duoka::parallel
