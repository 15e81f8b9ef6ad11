// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/comm/group.h"
#include "duoka/core/error.h"
#include "duoka/parallel/layout.h"
#include "parallel/toy_chain.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using test::make_toy;
using test::toy_stream;
using test::ToyOptions;

std::vector<Stream> streams(int count) {
  std::vector<Stream> all;
  for (int i = 0; i < count; ++i) all.push_back(toy_stream(i));
  return all;
}

/// Loss and gradients of one update, walked by hand without an engine.
double loss_by_hand(Chain& chain, std::span<const Stream> micro, std::vector<at::Tensor>& gradients) {
  const double scale = 1.0 / static_cast<double>(test::count_trained(micro));
  double loss = 0;
  for (const Stream& stream : micro) {
    std::vector<Saved> saved(chain.layers.size());
    at::Tensor x;
    for (size_t i = 0; i < chain.layers.size(); ++i) x = chain.layers[i]->forward(x, stream, saved[i]);
    auto share = chain.objective->loss_and_gradient(x, stream, scale);
    loss += share.loss_sum * scale;
    for (size_t i = chain.layers.size(); i-- > 0;)
      share.dx = chain.layers[i]->backward(share.dx, stream, saved[i]);
  }
  for (Parameter* parameter : chain.parameters())
    if (parameter->is_trainable) gradients.push_back(parameter->grad);
  return loss;
}

TEST(Engine, GivesLossAndGradientOfTheWholeUpdate) {
  const auto micro = streams(3);
  Chain by_hand = make_toy();
  std::vector<at::Tensor> wanted;
  const double loss = loss_by_hand(by_hand, micro, wanted);

  Chain chain = make_toy();
  Layout layout({}, comm::Group());
  Engine engine(chain, layout);
  const int64_t trained = test::count_trained(micro);
  EXPECT_DOUBLE_EQ(engine.forward_backward(micro, trained).value() / static_cast<double>(trained), loss);
  engine.finish_gradients();
  ASSERT_EQ(engine.slots().size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::equal(engine.slots()[i].grad, wanted[i]));
}

TEST(Engine, GradientIsTheSlopeOfTheLoss) {
  const auto micro = streams(2);
  const int64_t trained = test::count_trained(micro);
  Chain chain = make_toy();
  Layout layout({}, comm::Group());
  Engine engine(chain, layout);
  engine.forward_backward(micro, trained);
  engine.finish_gradients();
  for (Slot& slot : engine.slots()) {
    at::Tensor flat = slot.master.view(-1);
    for (const int64_t at : {int64_t{0}, flat.numel() - 1}) {
      constexpr double h = 1e-5;
      const double before = flat[at].item<double>();
      const auto loss_with = [&](double value) {
        flat[at] = value;
        return engine.evaluate(micro).mean();
      };
      const double slope = (loss_with(before + h) - loss_with(before - h)) / (2 * h);
      flat[at] = before;
      EXPECT_NEAR(slot.grad.view(-1)[at].item<double>(), slope, 1e-8) << slot.parameter->name;
    }
  }
}

TEST(Engine, ZeroesGradientsBetweenUpdates) {
  const auto micro = streams(2);
  Chain chain = make_toy();
  Layout layout({}, comm::Group());
  Engine engine(chain, layout);
  const int64_t trained = test::count_trained(micro);
  engine.forward_backward(micro, trained);
  engine.finish_gradients();
  const at::Tensor first = engine.slots()[0].grad.clone();
  engine.forward_backward(micro, trained);
  engine.finish_gradients();
  EXPECT_TRUE(at::equal(engine.slots()[0].grad, first));
}

TEST(Engine, RecomputingGivesTheSameBitsAndRunsForwardTwice) {
  const auto micro = streams(3);
  std::vector<at::Tensor> gradients[2];
  double loss[2];
  int num_forwards[2] = {0, 0};
  for (const bool recompute : {false, true}) {
    Chain chain = make_toy();
    auto probe = std::make_unique<test::Probe>();
    probe->on_forward = [&] { ++num_forwards[recompute]; };
    chain.layers.insert(chain.layers.begin() + 2, std::move(probe));
    Layout layout({}, comm::Group());
    Engine engine(chain, layout, {.recompute = recompute});
    loss[recompute] = engine.forward_backward(micro, test::count_trained(micro)).value();
    engine.finish_gradients();
    for (const Slot& slot : engine.slots()) gradients[recompute].push_back(slot.grad.clone());
  }
  EXPECT_EQ(loss[0], loss[1]);
  for (size_t i = 0; i < gradients[0].size(); ++i) EXPECT_TRUE(at::equal(gradients[0][i], gradients[1][i]));
  EXPECT_EQ(num_forwards[0], 3);
  EXPECT_EQ(num_forwards[1], 6);
}

TEST(Engine, DoesNotWalkBackBelowTheLowestTrainedLayer) {
  ToyOptions options;
  options.is_tied = false;
  options.first_trained_block = 1;
  Chain chain = make_toy(options);
  int num_low = 0, num_high = 0;
  auto low = std::make_unique<test::Probe>(), high = std::make_unique<test::Probe>();
  low->on_backward = [&] { ++num_low; };
  high->on_backward = [&] { ++num_high; };
  chain.layers.insert(chain.layers.begin() + 3, std::move(high));  // after block 1
  chain.layers.insert(chain.layers.begin() + 2, std::move(low));   // after block 0
  Layout layout({}, comm::Group());
  Engine engine(chain, layout);
  const auto micro = streams(2);
  engine.forward_backward(micro, test::count_trained(micro));
  engine.finish_gradients();
  EXPECT_EQ(num_low, 0);
  EXPECT_EQ(num_high, 2);
  EXPECT_EQ(engine.slots().size(), 5u);  // two blocks of two, the head
  EXPECT_FALSE(chain.parameters()[0]->grad.defined());
}

TEST(Engine, KeepsMastersOfHalfPrecisionValues) {
  ToyOptions options;
  options.dtype = at::kBFloat16;
  Chain chain = make_toy(options);
  Layout layout({}, comm::Group());
  Engine engine(chain, layout);
  Slot& slot = engine.slots()[1];
  EXPECT_EQ(slot.master.scalar_type(), at::kFloat);
  EXPECT_EQ(slot.grad.scalar_type(), at::kFloat);
  // Steps too small for bf16 add up in the master.
  slot.master.fill_(1);
  for (int i = 0; i < 100; ++i) slot.master.sub_(0.001);
  engine.publish();
  const double value = slot.parameter->value.view(-1)[0].item<double>();
  EXPECT_TRUE(value == 0.8984375 || value == 0.90234375) << value;
}

TEST(Engine, MastersOfFullPrecisionValuesCostNothing) {
  Chain chain = make_toy();
  Layout layout({}, comm::Group());
  Engine engine(chain, layout);
  for (const Slot& slot : engine.slots()) EXPECT_TRUE(slot.master.is_same(slot.parameter->value));
}

TEST(Engine, SkipsStreamsWithNothingToTrain) {
  const std::vector<int32_t> ids{1, 2, 3}, labels(3, static_cast<int32_t>(ignore_index));
  const RowView row{ids, labels, 0};
  const std::vector<Stream> micro{make_stream({&row, 1}), toy_stream(0)};
  Chain chain = make_toy();
  int num_forwards = 0;
  auto probe = std::make_unique<test::Probe>();
  probe->on_forward = [&] { ++num_forwards; };
  chain.layers.insert(chain.layers.begin() + 1, std::move(probe));
  Layout layout({}, comm::Group());
  Engine engine(chain, layout);
  EXPECT_GT(engine.forward_backward(micro, micro[1].num_trained).value(), 0);
  engine.finish_gradients();
  EXPECT_EQ(num_forwards, 1);
  EXPECT_EQ(engine.evaluate(micro).num_trained, micro[1].num_trained);
}

TEST(Engine, RefusesWhatBreaksItsContract) {
  Chain chain = make_toy();
  Layout layout({}, comm::Group());
  Engine engine(chain, layout);
  const auto micro = streams(1);
  EXPECT_THROW(engine.forward_backward(micro, 0), StateError);
  EXPECT_THROW(engine.forward_backward(micro, micro[0].num_trained - 1), StateError);
  engine.forward_backward(micro, micro[0].num_trained);
  EXPECT_THROW(engine.forward_backward(micro, micro[0].num_trained), StateError);
  engine.finish_gradients();
  engine.finish_gradients();  // nothing left: returns

  for (Parameter* parameter : chain.parameters()) parameter->is_trainable = false;
  EXPECT_THAT(testing::message_of<ConfigError>([&] { Engine(chain, layout); }),
              ::testing::HasSubstr("every parameter is frozen"));
}

}  // namespace
}  // namespace duoka::parallel
