// SPDX-License-Identifier: Apache-2.0
// The chain's list of parameters, and what layers keep between forward and backward.
#include "duoka/core/layer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"

namespace duoka {
namespace {

class Holder final : public Layer {
 public:
  explicit Holder(std::vector<Parameter*> held) : held_(std::move(held)) {}
  std::vector<Parameter*> parameters() override { return held_; }
  at::Tensor forward(const at::Tensor& x, const Stream&, Saved&) override { return x; }
  at::Tensor backward(const at::Tensor& dy, const Stream&, Saved&) override { return dy; }

 private:
  std::vector<Parameter*> held_;
};

class HoldingObjective final : public Objective {
 public:
  explicit HoldingObjective(std::vector<Parameter*> held) : held_(std::move(held)) {}
  std::vector<Parameter*> parameters() override { return held_; }
  double loss_sum(const at::Tensor&, const Stream&) override { return 0; }
  Share loss_and_gradient(const at::Tensor&, const Stream&, double) override { return {}; }

 private:
  std::vector<Parameter*> held_;
};

TEST(Chain, NamesEachParameterOnceInItsFirstPlace) {
  Parameter embedding, up, down, norm;
  Chain chain;
  chain.layers.push_back(std::make_unique<Holder>(std::vector{&embedding}));
  chain.layers.push_back(std::make_unique<Holder>(std::vector{&up, &down, &up}));
  EXPECT_EQ(chain.parameters(), (std::vector{&embedding, &up, &down})) << "a chain without an objective";
  chain.objective = std::make_unique<HoldingObjective>(std::vector{&norm, &embedding});  // a tied head
  EXPECT_EQ(chain.parameters(), (std::vector{&embedding, &up, &down, &norm}));
  EXPECT_TRUE(Chain().parameters().empty());
}

TEST(Saved, PopsInReverse) {
  Saved saved;
  const auto first = at::ones({2}), second = at::zeros({3});
  saved.push(first);
  saved.push({});  // a layer may have nothing to say in its place
  saved.push(second);
  EXPECT_TRUE(saved.pop().is_same(second));
  EXPECT_FALSE(saved.pop().defined());
  EXPECT_TRUE(saved.pop().is_same(first));
  EXPECT_TRUE(saved.is_empty());
  EXPECT_THROW(saved.pop(), StateError);
}

TEST(Saved, KeepsNothingWhenNotRecording) {
  Saved saved(false);
  saved.push(at::ones({2}));
  EXPECT_FALSE(saved.is_recording());
  EXPECT_TRUE(saved.is_empty());
  EXPECT_EQ(saved.num_bytes(), 0);
}

TEST(Saved, CountsWhatIsHeldOnce) {
  Saved saved;
  const auto x = at::zeros({8, 4});
  saved.push(x);
  saved.push(x);
  saved.push(x.narrow(0, 0, 2));  // keeps all of x alive, and no more
  saved.push({});
  EXPECT_EQ(saved.num_bytes(), 8 * 4 * 4);
  saved.push(at::zeros({5}, at::kDouble));
  EXPECT_EQ(saved.num_bytes(), 8 * 4 * 4 + 5 * 8);
  saved.pop();
  EXPECT_EQ(saved.num_bytes(), 8 * 4 * 4);
}

}  // namespace
}  // namespace duoka
