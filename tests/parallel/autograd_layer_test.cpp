// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/autograd_layer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/parallel/mean_squared_error.h"
#include "parallel/toy_chain.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

class WithoutGradients : public ::testing::Test {
 protected:
  at::NoGradGuard no_grad_;  // as an engine calls layers
  Stream stream_ = test::toy_stream(0);
};
using AutogradLayerTest = WithoutGradients;
using MeanSquaredErrorTest = WithoutGradients;

TEST_F(AutogradLayerTest, GivesTheGradientsOfALinearMap) {
  const at::Tensor w = at::tensor({1., 2., 3., 4., 5., 6.}, at::kDouble).view({2, 3}).requires_grad_(true);
  AutogradLayer layer([w](const at::Tensor& x, const Stream&) { return at::matmul(x, w.t()); }, {{"w", w}});
  const at::Tensor x = at::tensor({1., 0., -1.}, at::kDouble).view({1, 3});
  const at::Tensor dy = at::tensor({10., 1.}, at::kDouble).view({1, 2});
  Saved saved;
  const at::Tensor y = layer.forward(x, stream_, saved);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(at::equal(y, at::tensor({-2., -2.}, at::kDouble).view({1, 2})));
  EXPECT_TRUE(
      at::equal(layer.backward(dy, stream_, saved), at::tensor({14., 25., 36.}, at::kDouble).view({1, 3})));
  EXPECT_TRUE(at::equal(layer.parameters()[0]->grad, at::matmul(dy.t(), x)));
  EXPECT_TRUE(saved.is_empty());
}

TEST_F(AutogradLayerTest, SeesUpdatesOfItsParameter) {
  const at::Tensor w = at::ones({1, 1}, at::kDouble).requires_grad_(true);
  AutogradLayer layer([w](const at::Tensor& x, const Stream&) { return x * w; }, {{"w", w}});
  layer.parameters()[0]->value.fill_(3);
  Saved saved(false);
  EXPECT_EQ(layer.forward(at::ones({1, 1}, at::kDouble), stream_, saved).item<double>(), 3);
  EXPECT_TRUE(saved.is_empty());
}

TEST_F(AutogradLayerTest, FrozenParametersGetNoGradient) {
  const at::Tensor w = at::ones({1, 1}, at::kDouble);
  AutogradLayer layer([w](const at::Tensor& x, const Stream&) { return x * w * 2; }, {{"w", w}});
  Saved saved;
  layer.forward(at::ones({1, 1}, at::kDouble), stream_, saved);
  EXPECT_EQ(layer.backward(at::ones({1, 1}, at::kDouble), stream_, saved).item<double>(), 2);
  EXPECT_FALSE(layer.parameters()[0]->grad.defined());
}

TEST_F(AutogradLayerTest, AFunctionThatIgnoresItsInputOrAParameterGivesZeros) {
  const at::Tensor w = at::ones({2, 1}, at::kDouble).requires_grad_(true);
  const at::Tensor unused = at::ones({1}, at::kDouble).requires_grad_(true);
  AutogradLayer layer([w](const at::Tensor&, const Stream&) { return w * 2; },
                      {{"w", w}, {"unused", unused}});
  Saved saved;
  layer.forward(at::ones({2, 3}, at::kDouble), stream_, saved);
  EXPECT_TRUE(at::equal(layer.backward(at::ones({2, 1}, at::kDouble), stream_, saved),
                        at::zeros({2, 3}, at::kDouble)));
  EXPECT_FALSE(layer.parameters()[1]->grad.defined());
}

TEST_F(AutogradLayerTest, ChecksItsParameters) {
  const auto same = [](const at::Tensor& x, const Stream&) { return x; };
  const at::Tensor leaf = at::ones({1});
  EXPECT_THAT(testing::message_of<StateError>([&] {
                AutogradLayer(same, {{"a", leaf}, {"a", leaf}});
              }),
              ::testing::HasSubstr("two parameters are called a"));
  EXPECT_THAT(testing::message_of<StateError>([&] {
                AutogradLayer(same, {{"n", at::ones({1}, at::kLong)}});
              }),
              ::testing::HasSubstr("n is not a floating-point leaf"));
}

TEST_F(MeanSquaredErrorTest, CountsTrainedTokensOnly) {
  MeanSquaredError objective([](const Stream& s) { return at::zeros({s.num_tokens(), 2}, at::kDouble); });
  const at::Tensor x = at::ones({stream_.num_tokens(), 2}, at::kDouble) * 3;
  EXPECT_DOUBLE_EQ(objective.loss_sum(x, stream_), 9.0 * static_cast<double>(stream_.num_trained));
  const auto share = objective.loss_and_gradient(x, stream_, 0.5);
  EXPECT_DOUBLE_EQ(share.loss_sum, objective.loss_sum(x, stream_));
  EXPECT_DOUBLE_EQ(share.dx.sum().item<double>(), 0.5 * 2 * 3 * static_cast<double>(stream_.num_trained));
  EXPECT_EQ(share.dx[0].abs().sum().item<double>(), 0);  // the first token is not trained
}

}  // namespace
}  // namespace duoka::parallel
