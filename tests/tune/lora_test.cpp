// SPDX-License-Identifier: Apache-2.0
#include "duoka/tune/lora.h"

#include "duoka/core/error.h"
#include "duoka/model/block.h"
#include "model/reference_layers.h"

namespace duoka::tune {
namespace {

using namespace model;
using namespace model::test;

constexpr uint64_t seed = 5;

/// A linear layer "m" with an adapter whose B is not zero, so that all gradients are there.
Linear adapted(const LoraConfig& config, bool is_weight_trainable = false,
               at::ScalarType dtype = at::kDouble) {
  Linear linear(random_source(dtype, [=](auto&) { return is_weight_trainable; }), "m", 30, 70);
  auto lora = std::make_unique<LoraAdapter>(linear, config, seed);
  lora->b().value = random_tensor("B", lora->b().value.sizes(), dtype);
  linear.attach(std::move(lora));
  return linear;
}

at::Tensor mask_of(const LoraConfig& config, const Stream& stream) {
  const Dropout dropout(config.dropout, random_key(seed, "m.lora_dropout"));
  return dropout.kept(stream, 70).to(at::kDouble) / (1 - config.dropout);
}

at::Tensor lora_reference(const at::Tensor& x, const Leaves& w, const at::Tensor& mask, double scale) {
  const auto low = (x * mask).matmul(w.at("base_model.model.m.lora_A.weight").t());
  return linear_reference(x, w, "m") + scale * low.matmul(w.at("base_model.model.m.lora_B.weight").t());
}

TEST(Lora, MatchesAutograd) {
  const Stream stream = stream_of({9, 5});
  for (const double dropout : {0.0, 0.3})
    for (const bool trains_weight : {false, true}) {
      const LoraConfig config{.rank = 4, .alpha = 6, .dropout = dropout};
      Linear linear = adapted(config, trains_weight);
      const auto mask = dropout > 0 ? mask_of(config, stream) : at::ones({14, 70}, at::kDouble);
      expect_matches_autograd(
          linear, random_tensor("x", {14, 70}), stream,
          [&](const auto& x, const Leaves& w) { return lora_reference(x, w, mask, 1.5); });
    }
}

TEST(Lora, FrozenAStillPassesTheGradientOn) {
  Linear linear = adapted({.rank = 4, .alpha = 4});
  linear.adapter()->parameters()[0]->is_trainable = false;
  EXPECT_FALSE(linear.needs_input());
  expect_matches_autograd(
      linear, random_tensor("x", {9, 70}), stream_of({9}),
      [](const auto& x, const Leaves& w) { return lora_reference(x, w, at::ones({1}, at::kDouble), 1); });
}

TEST(Lora, InABlockMatchesAutograd) {
  // The adapters' input of down_proj and o_proj is made again in backward, or shared: all seven at once.
  BlockConfig config;
  config.attention = {24, 4, 2, 8};
  config.mlp = {24, 40};
  RopeConfig rope_config;
  rope_config.head_dim = 8;
  const auto rope = std::make_shared<const Rope>(rope_config);
  const Stream stream = stream_of({7, 6});
  Block block(random_source(at::kDouble, [](auto&) { return false; }), "b", config, rope);
  for (Linear* linear : block.linears()) {
    auto lora = std::make_unique<LoraAdapter>(*linear, LoraConfig{.rank = 3, .alpha = 3}, seed);
    lora->b().value = random_tensor(lora->b().name, lora->b().value.sizes());
    linear->attach(std::move(lora));
  }
  expect_matches_autograd(block, random_tensor("x", {13, 24}), stream, [&](const auto& x, const Leaves& w) {
    Leaves merged = w;
    for (const auto& [name, value] : w)
      if (const auto end = name.find(".lora_A"); end != name.npos) {
        const std::string module = name.substr(std::string("base_model.model.").size(), end - 17);
        merged[module + ".weight"] =
            w.at(module + ".weight") + w.at(name.substr(0, end) + ".lora_B.weight").matmul(value);
      }
    return block_reference(x, merged, "b", config, *rope, stream);
  });
}

TEST(Lora, StartsWhereTheBaseIs) {
  Linear linear(random_source(), "m", 30, 70);
  const auto x = random_tensor("x", {9, 70}), before = linear.apply(x);
  linear.attach(std::make_unique<LoraAdapter>(linear, LoraConfig{}, seed));
  EXPECT_TRUE(at::equal(linear.apply(x), before));
}

TEST(Lora, InitialAIsUniformAndKeyedByName) {
  Linear one(random_source(at::kFloat), "one", 64, 256), other(random_source(at::kFloat), "other", 64, 256);
  const LoraConfig config{.rank = 64, .alpha = 1};
  const auto a = LoraAdapter(one, config, 1).a().value;
  EXPECT_TRUE(at::equal(a, LoraAdapter(one, config, 1).a().value));
  EXPECT_FALSE(at::equal(a, LoraAdapter(other, config, 1).a().value));
  EXPECT_FALSE(at::equal(a, LoraAdapter(one, config, 2).a().value));
  // Uniform in ±1/16: mean 0, standard deviation 1/(16 sqrt 3), over 16384 numbers.
  EXPECT_LE(a.abs().max().item<double>(), 1.0 / 16);
  EXPECT_GT(a.abs().max().item<double>(), 0.999 / 16);
  EXPECT_NEAR(a.mean().item<double>(), 0, 4 / (16 * std::sqrt(3.0)) / 128);
  EXPECT_NEAR(a.std().item<double>() * 16 * std::sqrt(3.0), 1, 0.02);
}

TEST(Lora, ScalesAsPeft) {
  Linear linear(random_source(), "m", 30, 70);
  EXPECT_DOUBLE_EQ(LoraAdapter(linear, {.rank = 4, .alpha = 6}, 0).scale(), 1.5);
  EXPECT_DOUBLE_EQ(LoraAdapter(linear, {.rank = 4, .alpha = 6, .use_rslora = true}, 0).scale(), 3);
}

TEST(Lora, DeltaIsWhatItAdds) {
  Linear linear = adapted({.rank = 4, .alpha = 6});
  const auto x = random_tensor("x", {9, 70}), y = linear.apply(x);
  const auto lora = linear.detach();
  EXPECT_LT(relative_error(linear.apply(x) + x.matmul(lora->delta().t()), y), 1e-12);
  EXPECT_EQ(adapted({.rank = 4, .alpha = 6}, false, at::kBFloat16).adapter()->delta().scalar_type(),
            at::kFloat);
}

TEST(Lora, NothingIsDroppedInEvaluation) {
  Linear linear = adapted({.rank = 4, .alpha = 6, .dropout = 0.5});
  Stream stream = stream_of({9});
  const auto x = random_tensor("x", {9, 70});
  Saved nothing(false);
  const auto training = linear.forward(x, stream, nothing);
  stream.is_training = false;
  const auto evaluation = linear.forward(x, stream, nothing);
  EXPECT_FALSE(at::allclose(training, evaluation));
  EXPECT_LT(relative_error(evaluation, linear.apply(x)), 1e-14);
}

TEST(Lora, PackedGradientsWithDropoutAreThoseOfTheRows) {
  const LoraConfig config{.rank = 4, .alpha = 6, .dropout = 0.3};
  Linear packed = adapted(config), alone = adapted(config);
  const std::vector<int64_t> lengths{5, 1, 8};
  const auto x = random_tensor("x", {14, 70}), dy = random_tensor("dy", {14, 30});
  Saved saved;
  packed.forward(x, stream_of(lengths), saved);
  packed.backward(dy, stream_of(lengths), saved);
  int64_t begin = 0;
  for (size_t r = 0; r < lengths.size(); begin += lengths[r], ++r) {
    const Stream row = stream_of({lengths[r]}, 16, 0, 1000 + r);
    alone.forward(x.narrow(0, begin, lengths[r]), row, saved);
    alone.backward(dy.narrow(0, begin, lengths[r]), row, saved);
  }
  for (size_t i = 1; i < 3; ++i)
    EXPECT_LT(relative_error(packed.parameters()[i]->grad, alone.parameters()[i]->grad), 1e-12);
}

TEST(Lora, KeepsTheLowRankActivationAndNoDroppedCopy) {
  Linear linear = adapted({.rank = 4, .alpha = 6, .dropout = 0.3}, false, at::kFloat);
  const auto x = random_tensor("x", {9, 70}, at::kFloat);
  Saved saved;
  linear.forward(x, stream_of({9}), saved);
  EXPECT_EQ(saved.num_bytes(), 9 * 70 * 4 + 9 * 4 * 4);
}

TEST(Lora, HasPeftsNamesAndF32Gradients) {
  Linear linear = adapted({.rank = 4, .alpha = 6}, false, at::kBFloat16);
  const auto parameters = linear.adapter()->parameters();
  EXPECT_EQ(parameters[0]->name, "base_model.model.m.lora_A.weight");
  EXPECT_EQ(parameters[1]->name, "base_model.model.m.lora_B.weight");
  Saved saved;
  linear.forward(random_tensor("x", {9, 70}, at::kBFloat16), stream_of({9}), saved);
  linear.backward(random_tensor("dy", {9, 30}, at::kBFloat16), stream_of({9}), saved);
  for (const Parameter* p : parameters) {
    EXPECT_EQ(p->value.scalar_type(), at::kBFloat16);
    EXPECT_EQ(p->grad.scalar_type(), at::kFloat);
  }
}

TEST(Lora, RefusesOptionsThatCannotBe) {
  Linear linear(random_source(), "m", 30, 70);
  EXPECT_THROW(LoraAdapter(linear, {.rank = 0}, 0), ConfigError);
  EXPECT_THROW(LoraAdapter(linear, {.rank = 71}, 0), ConfigError);
  EXPECT_THROW(LoraAdapter(linear, {.rank = 4, .dropout = 1.0}, 0), ConfigError);
}

}  // namespace
}  // namespace duoka::tune
