// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/gradients.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/comm/group.h"
#include "duoka/core/error.h"
#include "duoka/io/json.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka::train {
namespace {

std::vector<Slot> slots_with(const std::vector<at::Tensor>& gradients, bool is_primary = true) {
  std::vector<Slot> slots;
  for (const at::Tensor& gradient : gradients) {
    Slot slot;
    slot.grad = gradient;
    slot.is_primary = is_primary;
    slots.push_back(slot);
  }
  return slots;
}

ExactSum sum_of(double value) {
  ExactSum sum;
  sum.add(value);
  return sum;
}

double norm_of(const std::vector<Slot>& slots) { return sum_loss_and_norm({}, 1, slots, comm::Group()).norm; }

TEST(Gradients, NormIsThatOfAllTensorsTogether) {
  EXPECT_DOUBLE_EQ(norm_of(slots_with({at::full({2}, 3.), at::full({1, 1}, std::sqrt(7.), at::kDouble)})), 5);
  EXPECT_DOUBLE_EQ(norm_of(slots_with({at::full({4, 4}, 2., at::kBFloat16)})), 8);
  EXPECT_EQ(norm_of({}), 0);
}

TEST(Gradients, NormEqualsTorchs) {
  const io::Json golden = io::read_json_file(testing::fixture("golden/optimizers.json"));
  std::vector<at::Tensor> gradients;
  for (const io::Json& values : golden["gradients"][0])
    gradients.push_back(at::tensor(values.get<std::vector<float>>()));
  EXPECT_NEAR(norm_of(slots_with(gradients)), golden["norm_of_first_gradients"].get<double>(), 1e-6);
}

TEST(Gradients, NormHasTheSameBitsOnAnyNumberOfThreads) {
  const auto slots = slots_with({at::sin(at::arange(300'007, at::kFloat))});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const double one = norm_of(slots);
  at::set_num_threads(3);
  const double three = norm_of(slots);
  at::set_num_threads(before);
  EXPECT_EQ(one, three);
  EXPECT_NEAR(one, at::linalg_vector_norm(slots[0].grad.to(at::kDouble)).item<double>(), 1e-9 * one);
}

TEST(Gradients, RanksAgreeAndCountAReplicaOnce) {
  test::run_ranks(3, [](const comm::Group& group) {
    // One gradient on all ranks, of which rank 0 is primary, and a slice of its own on each.
    auto slots = slots_with({at::full({1}, 4.)}, group.rank() == 0);
    slots.push_back(slots_with({at::full({1}, std::sqrt(3.), at::kDouble)})[0]);
    const LossAndNorm sums = sum_loss_and_norm(sum_of(0.5), 2, slots, group);
    EXPECT_DOUBLE_EQ(sums.norm, 5);
    EXPECT_DOUBLE_EQ(sums.loss, 0.75);
  });
}

TEST(Gradients, ClipsToTheWantedNorm) {
  auto slots = slots_with({at::full({2}, 3.), at::full({1}, std::sqrt(7.))});
  EXPECT_EQ(clip_gradients(slots, 5, 0), 1);
  EXPECT_EQ(clip_gradients(slots, 5, 6), 1);
  EXPECT_EQ(norm_of(slots), norm_of(slots_with({at::full({2}, 3.), at::full({1}, std::sqrt(7.))})));
  EXPECT_DOUBLE_EQ(clip_gradients(slots, 5, 1), 1 / (5 + 1e-6));
  EXPECT_NEAR(norm_of(slots), 1, 1e-6);
}

TEST(Gradients, WhatIsNotFiniteStopsAllRanksBeforeTheWeightsChange) {
  test::run_ranks(2, [](const comm::Group& group) {
    // Only the primary, rank 0, sees it; the other one stops too.
    const double value = group.rank() == 0 ? std::numeric_limits<double>::quiet_NaN() : 1;
    auto slots = slots_with({at::full({3}, value)}, group.rank() == 0);
    const LossAndNorm sums = sum_loss_and_norm(sum_of(1), 1, slots, group);
    EXPECT_EQ(clip_gradients(slots, sums.norm, 1), 1);
    EXPECT_THAT(testing::message_of<ConfigError>([&] { require_finite(sums, 7); }),
                ::testing::AllOf(::testing::HasSubstr("step 7: loss 2, gradient norm nan"),
                                 ::testing::HasSubstr("learning_rate")));
  });
  EXPECT_THROW(require_finite({std::numeric_limits<double>::infinity(), 1}, 1), ConfigError);
  require_finite({1, 1}, 1);
}

}  // namespace
}  // namespace duoka::train
