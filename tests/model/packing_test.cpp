// SPDX-License-Identifier: Apache-2.0
// A packed stream gives the loss and the gradients of its rows one by one.
#include "duoka/model/block.h"
#include "duoka/model/embedding.h"
#include "duoka/model/head.h"
#include "model/reference_layers.h"

namespace duoka::model {
namespace {

using namespace test;

constexpr int64_t vocab = 16, width = 24;

/// Embedding, two blocks, tied head, all trainable.
Chain tied_model(int64_t sliding_window) {
  BlockConfig config;
  config.attention = {width, 4, 2, 8};
  config.attention.sliding_window = sliding_window;
  config.attention.has_qk_norm = config.attention.has_qkv_bias = true;
  config.mlp = {width, 40};
  RopeConfig rope;
  rope.head_dim = 8;
  rope.kind = RopeConfig::Kind::dynamic;
  rope.max_positions = 10;
  rope.factor = 2;
  const auto shared_rope = std::make_shared<const Rope>(rope);

  const auto source = random_source();
  Chain chain;
  auto embedding = std::make_unique<Embedding>(source, "model.embed_tokens.weight", vocab, width);
  chain.objective = std::make_unique<Head>(RmsNorm(source({"model.norm.weight", {width}}), 1e-6),
                                           &embedding->weight(), 7 * vocab * 8);
  chain.layers.push_back(std::move(embedding));
  for (int i = 0; i < 2; ++i)
    chain.layers.push_back(
        std::make_unique<Block>(source, "model.layers." + std::to_string(i), config, shared_rope));
  return chain;
}

double forward_backward(Chain& chain, const Stream& stream) {
  std::vector<Saved> saved(chain.layers.size());
  at::Tensor x;
  for (size_t i = 0; i < chain.layers.size(); ++i) x = chain.layers[i]->forward(x, stream, saved[i]);
  auto [loss, dx] = chain.objective->loss_and_gradient(x, stream, 0.01);
  for (size_t i = chain.layers.size(); i-- > 0;) dx = chain.layers[i]->backward(dx, stream, saved[i]);
  return loss;
}

void check(int64_t sliding_window) {
  const std::vector<int64_t> lengths{7, 1, 14, 3};
  Chain packed = tied_model(sliding_window), alone = tied_model(sliding_window);
  const double loss = forward_backward(packed, stream_of(lengths, vocab, 2));
  double sum = 0;
  for (size_t r = 0; r < lengths.size(); ++r)
    sum += forward_backward(alone, stream_of({lengths[r]}, vocab, 2, 1000 + r));
  EXPECT_NEAR(loss / sum, 1, 1e-12);
  const auto ours = packed.parameters(), theirs = alone.parameters();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_LT(relative_error(ours[i]->grad, theirs[i]->grad), 1e-11) << ours[i]->name;
}

TEST(Packing, EqualsRowsOneByOne) { check(0); }
TEST(Packing, EqualsRowsOneByOneWithASlidingWindow) { check(4); }

TEST(Packing, TiedWeightsGradientIsTheSumOfBothUses) {
  Chain chain = tied_model(0);
  const Stream stream = stream_of({9}, vocab);
  const Leaves leaves = leaves_of(chain.parameters());
  forward_backward(chain, stream);
  // Through the head alone the gradient of an id that is never a target's competitor of the embedding
  // differs, so both uses must be there: compare with the difference quotient along one direction.
  auto& weight = *chain.layers[0]->parameters()[0];
  const auto direction = random_tensor("direction", weight.value.sizes());
  const auto loss_at = [&](double step) {
    const auto before = weight.value.clone();
    weight.value.add_(direction, step);
    Saved nothing(false);
    at::Tensor x;
    for (auto& layer : chain.layers) x = layer->forward(x, stream, nothing);
    const double loss = 0.01 * chain.objective->loss_sum(x, stream);
    weight.value.copy_(before);
    return loss;
  };
  const double step = 1e-6, quotient = (loss_at(step) - loss_at(-step)) / (2 * step);
  EXPECT_NEAR((weight.grad * direction).sum().item<double>() / quotient, 1, 1e-6);
}

}  // namespace
}  // namespace duoka::model
