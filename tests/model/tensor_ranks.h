// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/model/decoder.h"
#include "duoka/parallel/tensor_axis.h"
#include "model/layer_fixture.h"
#include "support/run_ranks.h"

namespace duoka::model::test {

/// A small decoder whose vocabulary (and width of the MLP) 2 and 4 do not divide.
inline ModelConfig small_config() {
  ModelConfig config;
  config.family = "llama";
  config.vocab_size = 37;
  config.hidden_size = 12;
  config.intermediate_size = 22;
  config.num_layers = 2;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 4;
  config.rope.head_dim = 4;
  config.windows = {0, 3};
  return config;
}

/// What one micro-batch comes to, of the whole model and all tokens.
struct Outcome {
  double loss = 0;
  double evaluated = 0;  ///< Decoder::loss_sum()
  at::Tensor dx;         ///< By the embedding's output.
  std::map<std::string, at::Tensor> gradients;
};

/// Where the slice of `parameter` lies in a tensor of the whole's shape.
inline at::Tensor box_of(const Parameter& parameter, at::Tensor whole) {
  for (int64_t dim = 0; dim < whole.dim(); ++dim)
    whole = whole.narrow(dim, parameter.offset[static_cast<size_t>(dim)], parameter.value.size(dim));
  return whole;
}

/// The gradient of the whole: slices side by side, what is whole on each rank added up. Zero where a rank
/// added nothing.
inline at::Tensor whole_gradient(const Parameter& parameter, const comm::Group& group) {
  at::Tensor whole =
      at::zeros(parameter.global_shape, parameter.value.options().dtype(parameter.gradient_dtype()));
  if (parameter.grad.defined()) box_of(parameter, whole).copy_(parameter.grad);
  if (group.size() > 1) comm::all_reduce(whole, comm::Op::sum, group);
  return whole;
}

/// One forward and backward along the chain, and an evaluation.
inline Outcome run(Decoder& decoder, const Stream& stream, double scale, const comm::Group& group) {
  const auto axis = parallel::make_tensor_axis(group);
  Outcome outcome;
  outcome.evaluated = decoder.loss_sum(stream);
  Chain& chain = decoder.chain();
  std::vector<Saved> saved(chain.layers.size());
  at::Tensor x;
  for (size_t i = 0; i < chain.layers.size(); ++i) x = chain.layers[i]->forward(x, stream, saved[i]);
  EXPECT_EQ(x.size(0), axis->part(stream.num_tokens()).count);
  auto [loss, dy] = chain.objective->loss_and_gradient(x, stream, scale);
  outcome.loss = loss;
  for (size_t i = chain.layers.size(); i-- > 0;) {
    if (i == 0) outcome.dx = axis->gather_tokens(dy, stream).clone();
    dy = chain.layers[i]->backward(dy, stream, saved[i]);
    EXPECT_TRUE(saved[i].is_empty());
  }
  for (const Parameter* parameter : decoder.parameters())
    if (parameter->is_trainable) outcome.gradients[parameter->name] = whole_gradient(*parameter, group);
  return outcome;
}

inline void expect_same(const Outcome& found, const Outcome& wanted, int rank, double tolerance) {
  if (rank == 0) {
    EXPECT_NEAR(found.loss / wanted.loss, 1, tolerance);
    EXPECT_NEAR(found.evaluated / wanted.loss, 1, tolerance);
  } else {
    EXPECT_EQ(found.loss, 0);
    EXPECT_EQ(found.evaluated, 0);
  }
  EXPECT_LT(relative_error(found.dx, wanted.dx), tolerance);
  ASSERT_EQ(found.gradients.size(), wanted.gradients.size());
  for (const auto& [name, gradient] : wanted.gradients) {
    // Of queries and keys where each trained token sees only itself: nothing but rounding.
    const auto is_zero = [](const at::Tensor& x) { return x.abs().max().item<double>() < 1e-15; };
    if (is_zero(gradient) && is_zero(found.gradients.at(name))) continue;
    EXPECT_LT(relative_error(found.gradients.at(name), gradient), tolerance) << name;
  }
}

struct RanksCase {
  ModelConfig config = small_config();
  ParameterSource source = random_source();
  /// Adapters, what trains; called on every rank's decoder.
  std::function<void(Decoder&)> prepare = [](Decoder&) {};
  std::vector<Stream> streams = {stream_of({7, 6, 1, 9}, 37), stream_of({11, 4}, 37, 5)};
  double tolerance = 1e-10;
};

/// Expects that 2 and 4 ranks come to what one does.
inline void expect_as_one_rank(const RanksCase& test) {
  for (const Stream& stream : test.streams) {
    Decoder whole(test.config, test.source);
    test.prepare(whole);
    const Outcome wanted = run(whole, stream, 0.125, comm::Group());
    for (const int size : {2, 4}) {
      SCOPED_TRACE(std::to_string(size) + " ranks, " + std::to_string(stream.num_tokens()) + " tokens");
      duoka::test::run_ranks(size, [&](const comm::Group& group) {
        Decoder decoder(test.config, test.source, parallel::make_tensor_axis(group));
        test.prepare(decoder);
        expect_same(run(decoder, stream, 0.125, group), wanted, group.rank(), test.tolerance);
      });
    }
  }
}

}  // namespace duoka::model::test
