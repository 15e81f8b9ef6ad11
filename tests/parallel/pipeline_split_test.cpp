// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/parallel/pipeline_schedule.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Layers = std::vector<int64_t>;

struct Quality {
  double most = 0;
  double squares = 0;
  auto operator<=>(const Quality&) const = default;
};

Quality quality(const std::vector<double>& costs, const Layers& layers) {
  Quality found;
  auto next = costs.begin();
  for (const int64_t count : layers) {
    const double cost = std::accumulate(next, next + count, 0.0);
    next += count;
    found.most = std::max(found.most, cost);
    found.squares += cost * cost;
  }
  return found;
}

/// Of all splits, tried one by one.
Quality best(const std::vector<double>& costs, int num_stages) {
  Quality least{1e300, 1e300};
  const std::function<void(Layers, int64_t)> extend = [&](const Layers& layers, int64_t left) {
    const auto stages_left = num_stages - static_cast<int64_t>(layers.size());
    if (stages_left == 0) {
      if (left == 0) least = std::min(least, quality(costs, layers));
      return;
    }
    for (int64_t count = 1; count <= left - stages_left + 1; ++count) {
      Layers longer = layers;
      longer.push_back(count);
      extend(longer, left - count);
    }
  };
  extend({}, static_cast<int64_t>(costs.size()));
  return least;
}

TEST(StageSplit, IsTheBestOfAll) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> costs(1 + random() % 10);
    for (double& cost : costs) cost = static_cast<double>(random() % 20);
    const int num_stages = 1 + static_cast<int>(random() % costs.size());
    const Layers found = stage_split(costs, num_stages);
    ASSERT_EQ(found.size(), static_cast<size_t>(num_stages));
    check_split(found, static_cast<int64_t>(costs.size()), num_stages);
    const Quality wanted = best(costs, num_stages);
    EXPECT_EQ(quality(costs, found), wanted) << ::testing::PrintToString(costs) << " in " << num_stages;
  }
}

TEST(StageSplit, SpreadsEqualLayersAndMakesRoomForAHeavyHead) {
  EXPECT_THAT(stage_split(std::vector<double>(10, 1.0), 4), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(stage_split(std::vector<double>{0, 1, 1, 1, 1, 1, 1, 2}, 2), ElementsAre(5, 3));
  EXPECT_THAT(stage_split(std::vector<double>{0, 0, 0}, 3), ElementsAre(1, 1, 1));
  EXPECT_THAT(stage_split(std::vector<double>(3, 0.1), 1), ElementsAre(3));
  // Sums that are rounded: the limit found first must still be one that is kept.
  EXPECT_THAT(stage_split(std::vector<double>(100, 0.1), 3), UnorderedElementsAre(33, 33, 34));
}

TEST(StageSplit, NeedsALayerForEachStage) {
  EXPECT_THAT(testing::message_of<ConfigError>([] {
                stage_split(std::vector<double>{1, 1}, 3);
              }),
              AllOf(HasSubstr("3 stages"), HasSubstr("has 2"), HasSubstr("pipeline_parallel_size")));
  EXPECT_THROW(stage_split(std::vector<double>{1, -1}, 1), StateError);
  EXPECT_THROW(stage_split(std::vector<double>{1}, 0), ConfigError);
}

TEST(StageSplit, OneGivenByHandIsChecked) {
  EXPECT_NO_THROW(check_split(Layers{1, 5, 2}, 8, 3));
  EXPECT_THAT(testing::message_of<ConfigError>([] {
                check_split(Layers{4, 4}, 8, 3);
              }),
              AllOf(HasSubstr("pipeline_split = 4, 4 has 2 numbers"), HasSubstr("wanted 3 numbers")));
  EXPECT_THAT(testing::message_of<ConfigError>([] {
                check_split(Layers{4, 4, 1}, 8, 3);
              }),
              AllOf(HasSubstr("adds up to 9"), HasSubstr("sum is 8")));
  EXPECT_THAT(testing::message_of<ConfigError>([] {
                check_split(Layers{4, 0, 4}, 8, 3);
              }),
              HasSubstr("a stage without a layer"));
  EXPECT_THROW(check_split(Layers{9, -1}, 8, 2), ConfigError);
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(check_split(Layers{most, most, 10}, 8, 3), ConfigError);  // 8 where sums wrap
}

}  // namespace
}  // namespace duoka::parallel
