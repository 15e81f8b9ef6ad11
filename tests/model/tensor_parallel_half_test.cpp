// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism in half precision: one rank but for rounding, and no less exact.
#include <algorithm>
#include <array>

#include "model/rounding.h"
#include "model/tensor_ranks.h"

namespace duoka::model {
namespace {

using namespace test;

constexpr double scale = 0.125;

std::array<ModelConfig, 2> configs() {
  ModelConfig plain = small_config(), full = small_config();
  full.has_qkv_bias = full.has_output_bias = full.has_mlp_bias = true;
  full.has_qk_norm = full.tie_word_embeddings = true;
  return {plain, full};
}

/// One config and stream: what f64 makes of the same rounded weights, what one rank does, and the ranks.
void expect_as_one_rank_but_for_rounding(const ModelConfig& config, at::ScalarType dtype,
                                         const Stream& stream) {
  const auto half = random_source(dtype);
  const ParameterSource rounded = [&](const ParameterRequest& request) {
    const Parameter parameter = half(request);
    return request.parameter(parameter.value.to(at::kDouble), parameter.is_trainable);
  };
  Decoder exact(config, rounded), whole(config, half);
  const Outcome wanted = run(exact, stream, scale, comm::Group()),
                alone = run(whole, stream, scale, comm::Group());
  const double tolerance = rounding_tolerance(dtype, static_cast<int>(config.num_layers));
  for (const int size : {2, 4}) {
    SCOPED_TRACE(std::to_string(size) + " ranks");
    duoka::test::run_ranks(size, [&](const comm::Group& group) {
      Decoder decoder(config, half, parallel::make_tensor_axis(group));
      const Outcome found = run(decoder, stream, scale, group);
      EXPECT_LT(distance(found.gradients, alone.gradients), tolerance);
      EXPECT_LT(distance({{"dx", found.dx}}, {{"dx", alone.dx}}), tolerance);
      EXPECT_NEAR(found.loss / alone.loss, group.rank() == 0 ? 1 : 0, tolerance);
      EXPECT_NEAR(found.evaluated / alone.evaluated, group.rank() == 0 ? 1 : 0, tolerance);
      // Parts of a sum are rounded before they are added up over the ranks: two places of eleven in a layer
      // round twice. The rest is chance: the two roundings are not the same ones.
      EXPECT_LT(distance(found.gradients, wanted.gradients), 2 * distance(alone.gradients, wanted.gradients));
    });
  }
}

class TensorParallelHalf : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(TensorParallelHalf, IsOneRankButForRounding) {
  for (const ModelConfig& config : configs())
    for (const Stream& stream :
         {stream_of({7, 6, 1, 9}, 37), stream_of({11, 4}, 37, 5), stream_of({40, 50, 30}, 37)}) {
      SCOPED_TRACE(::testing::Message()
                   << stream.num_tokens() << " tokens"
                   << (config.has_qk_norm ? ", biases, norms of heads, a tied head" : ""));
      expect_as_one_rank_but_for_rounding(config, GetParam(), stream);
    }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, TensorParallelHalf, ::testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& test) { return std::string(at::toString(test.param)); });

}  // namespace
}  // namespace duoka::model
