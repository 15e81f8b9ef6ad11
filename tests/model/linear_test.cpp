// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/linear.h"

#include "duoka/core/error.h"
#include "model/reference_layers.h"

namespace duoka::model {
namespace {

using namespace test;

void check(bool has_bias, const std::function<bool(const std::string&)>& is_trainable) {
  Linear linear(random_source(at::kDouble, is_trainable), "m", 5, 3, has_bias);
  expect_matches_autograd(linear, random_tensor("x", {7, 3}), stream_of({7}),
                          [](const auto& x, const Leaves& w) { return linear_reference(x, w, "m"); });
}

TEST(Linear, MatchesAutograd) {
  const auto all = [](const std::string&) { return true; };
  check(false, all);
  check(true, all);
  check(true, [](const std::string&) { return false; });
  check(true, [](const std::string& name) { return name.ends_with("bias"); });
  check(true, [](const std::string& name) { return name.ends_with("weight"); });
}

TEST(Linear, KeepsItsInputOnlyWhereNeeded) {
  Linear frozen(random_source(at::kDouble, [](auto&) { return false; }), "m", 5, 3);
  Linear trained(random_source(), "m", 5, 3);
  const auto x = random_tensor("x", {7, 3});
  Saved nothing, input;
  frozen.forward(x, stream_of({7}), nothing);
  trained.forward(x, stream_of({7}), input);
  EXPECT_TRUE(nothing.is_empty());
  EXPECT_EQ(input.pop().data_ptr(), x.data_ptr()) << "a handle, not a copy";
}

TEST(Linear, AddsGradientsOfSeveralStreams) {
  Linear linear(random_source(), "m", 5, 3);
  const auto x = random_tensor("x", {7, 3}), dy = random_tensor("dy", {7, 5});
  const Stream stream = stream_of({7});
  for (int pass = 0; pass < 2; ++pass) {
    Saved saved;
    linear.forward(x, stream, saved);
    linear.backward(dy, stream, saved);
  }
  EXPECT_LT(relative_error(linear.weight().grad, 2 * dy.t().mm(x)), 1e-12);
}

TEST(Linear, AddsIntoAGivenInputGradient) {
  Linear linear(random_source(), "m", 5, 3);
  const auto x = random_tensor("x", {7, 3}), dy = random_tensor("dy", {7, 5}),
             before = random_tensor("dx", {7, 3});
  at::Tensor dx = before.clone();
  Saved saved;
  linear.backward_into(dy, x, stream_of({7}), saved, dx);
  EXPECT_LT(relative_error(dx, before + dy.mm(linear.weight().value)), 1e-12);
}

TEST(Linear, HalfPrecisionHasF32Gradients) {
  Linear linear(random_source(at::kBFloat16), "m", 5, 3, true);
  const auto x = random_tensor("x", {7, 3}, at::kBFloat16), dy = random_tensor("dy", {7, 5}, at::kBFloat16);
  Saved saved;
  linear.forward(x, stream_of({7}), saved);
  EXPECT_EQ(linear.backward(dy, stream_of({7}), saved).scalar_type(), at::kBFloat16);
  EXPECT_EQ(linear.weight().grad.scalar_type(), at::kFloat);
  EXPECT_LT(relative_error(linear.weight().grad, dy.to(at::kDouble).t().mm(x.to(at::kDouble))), 1e-2);
  EXPECT_LT(relative_error(linear.bias()->grad, dy.to(at::kDouble).sum(0)), 1e-6) << "summed in f32";
}

struct NoAdapter final : Adapter {
  std::vector<Parameter*> parameters() override { return {}; }
  bool needs_input() const override { return false; }
  void forward(const at::Tensor&, at::Tensor&, const Stream&, Saved&) override {}
  void backward(const at::Tensor&, const at::Tensor&, at::Tensor&, const Stream&, Saved&) override {}
  at::Tensor delta() const override { return {}; }
};

TEST(Linear, TakesOneAdapter) {
  Linear linear(random_source(), "model.layers.0.mlp.up_proj", 5, 3);
  EXPECT_EQ(linear.module(), "model.layers.0.mlp.up_proj");
  EXPECT_EQ(linear.detach(), nullptr);
  linear.attach(std::make_unique<NoAdapter>());
  EXPECT_THROW(linear.attach(std::make_unique<NoAdapter>()), StateError);
  EXPECT_NE(linear.detach(), nullptr);
  EXPECT_EQ(linear.adapter(), nullptr);
}

}  // namespace
}  // namespace duoka::model
