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
  EXPECT_THROW(resolve({.data = -1}, 2), ConfigError);
  EXPECT_THROW(resolve({}, 0), ConfigError);
}

}  // namespace
}  // namespace duoka::parallel
