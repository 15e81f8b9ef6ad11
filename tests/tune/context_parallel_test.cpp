// SPDX-License-Identifier: Apache-2.0
// A decoder whose rows lie on several ranks, against one rank with the whole: losses and gradients of the
// parts add up. Here and not beside the decoder's tests because of LoRA, whose dropout must be the whole's.
#include <map>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/stream_cut.h"
#include "duoka/model/decoder.h"
#include "duoka/parallel/context_axis.h"
#include "duoka/parallel/tensor_axis.h"
#include "duoka/tune/lora.h"
#include "model/layer_fixture.h"
#include "support/run_ranks.h"

namespace duoka::tune {
namespace {

using namespace model::test;

struct Case {
  at::ScalarType dtype = at::kDouble;
  bool has_lora = false;
  bool is_tied = false;
  bool is_dynamic = false;
  std::vector<int64_t> lengths = {41, 6, 1, 17};
  int tensor_size = 1;
};

model::ModelConfig config_of(const Case& what) {
  model::ModelConfig config;
  config.family = "llama";
  config.vocab_size = 37;
  config.hidden_size = 12;
  config.intermediate_size = 22;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.rope.head_dim = 8;
  config.windows = {0, 64};  // no row is longer
  config.tie_word_embeddings = what.is_tied;
  config.has_qk_norm = config.has_qkv_bias = config.has_output_bias = true;
  if (what.is_dynamic) {
    config.rope.kind = model::RopeConfig::Kind::dynamic;
    config.rope.max_positions = 16;
    config.rope.factor = 2;
  }
  return config;
}

struct Outcome {
  at::Tensor loss, evaluated;  // [] f64, as the rest: sums over the ranks
  std::map<std::string, at::Tensor> gradients;
};

Outcome run(model::Decoder& decoder, const Stream& stream) {
  const auto scalar = [](double value) { return at::full({1}, value, at::kDouble); };
  Outcome outcome;
  Chain& chain = decoder.chain();
  std::vector<Saved> saved(chain.layers.size());
  at::Tensor x;
  for (size_t i = 0; i < chain.layers.size(); ++i) x = chain.layers[i]->forward(x, stream, saved[i]);
  auto [loss, dy] = chain.objective->loss_and_gradient(x, stream, 0.125);
  outcome.loss = scalar(loss);
  for (size_t i = chain.layers.size(); i-- > 0;) {
    dy = chain.layers[i]->backward(dy, stream, saved[i]);
    EXPECT_TRUE(saved[i].is_empty());
  }
  for (const Parameter* parameter : decoder.parameters()) {
    if (!parameter->is_trainable) continue;
    at::Tensor gradient = at::zeros(parameter->global_shape, at::kDouble), box = gradient;
    for (int64_t dim = 0; dim < box.dim(); ++dim)
      box = box.narrow(dim, parameter->offset[static_cast<size_t>(dim)], parameter->value.size(dim));
    if (parameter->grad.defined()) box.copy_(parameter->grad);
    outcome.gradients[parameter->name] = gradient;
  }
  Stream evaluation = stream;
  evaluation.is_training = false;
  outcome.evaluated = scalar(decoder.loss_sum(evaluation));
  return outcome;
}

void add_up(Outcome& outcome, const comm::Group& group) {
  for (at::Tensor* sum : {&outcome.loss, &outcome.evaluated}) comm::all_reduce(*sum, comm::Op::sum, group);
  for (auto& [name, gradient] : outcome.gradients) comm::all_reduce(gradient, comm::Op::sum, group);
}

model::Decoder decoder_of(const Case& what, const comm::Group& tensor, const comm::Group& context) {
  const auto source = random_source(what.dtype, [&](auto&) { return !what.has_lora; });
  model::Decoder decoder(config_of(what), source, parallel::make_tensor_axis(tensor),
                         parallel::make_context_axis(context));
  if (!what.has_lora) return decoder;
  for (model::Linear* linear : decoder.linears())
    linear->attach(std::make_unique<LoraAdapter>(*linear, LoraConfig{4, 8, 0.3, false}, 7));
  for (Parameter* parameter : decoder.parameters())  // B begins as 0, which would hide A
    if (parameter->is_trainable)
      parameter->value.copy_(random_tensor(parameter->name, parameter->value.sizes()) * 0.1);
  return decoder;
}

void check(const Case& what, const std::vector<int>& sizes = {2, 3, 4}) {
  // The gradient of a key's bias is what is left of terms that nearly cancel.
  const double tolerance = what.dtype == at::kDouble ? 1e-10 : 2e-5;
  const Stream whole = stream_of(what.lengths, 37, 2);
  model::Decoder one = decoder_of(what, {}, {});
  const Outcome wanted = run(one, whole);
  for (const int size : sizes)
    test::run_ranks(size * what.tensor_size, [&](const comm::Group& group) {
      const auto tensor = comm::split(group, group.rank() / what.tensor_size, "tensor");
      const auto context = comm::split(group, group.rank() % what.tensor_size, "context");
      model::Decoder decoder = decoder_of(what, tensor, context);
      Outcome found = run(decoder, cut_stream(whole, context.rank(), size));
      add_up(found, group);
      EXPECT_LT(relative_error(found.loss, wanted.loss), tolerance) << size;
      EXPECT_LT(relative_error(found.evaluated, wanted.evaluated), tolerance) << size;
      EXPECT_EQ(found.gradients.size(), wanted.gradients.size());
      for (const auto& [name, gradient] : wanted.gradients)
        EXPECT_LT(relative_error(found.gradients[name], gradient), tolerance)
            << name << ", " << size << " ranks";
    });
}

TEST(ContextParallel, IsOneRankInF64) { check({}); }
TEST(ContextParallel, IsOneRankInF32) { check({.dtype = at::kFloat}); }
TEST(ContextParallel, IsOneRankWithLoraAndDropout) { check({.has_lora = true}); }
TEST(ContextParallel, IsOneRankWithATiedHead) { check({.is_tied = true}, {2}); }
TEST(ContextParallel, IsOneRankWithDynamicRope) { check({.is_dynamic = true}, {2}); }
// Some ranks have no token, or no trained one.
TEST(ContextParallel, IsOneRankOnFewTokens) {
  check({.lengths = {3}}, {4});
  check({.has_lora = true, .lengths = {3, 1, 4}}, {4});
}
TEST(ContextParallel, IsOneRankTogetherWithTensorParallelism) {
  check({.tensor_size = 2}, {2});
  check({.has_lora = false, .is_tied = true, .lengths = {3, 9}, .tensor_size = 2}, {3});
}

TEST(ContextParallel, GenerationNeedsWholeRows) {
  test::run_ranks(2, [&](const comm::Group& group) {
    model::Decoder decoder = decoder_of({}, {}, group);
    auto cache = decoder.make_cache();
    EXPECT_THROW(decoder.logits_cached(at::ones({3}, at::kLong), cache), StateError);
  });
}

}  // namespace
}  // namespace duoka::tune
