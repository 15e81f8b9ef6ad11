// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/mlp.h"

#include "duoka/core/error.h"
#include "model/operators.h"
#include "model/reference_layers.h"

namespace duoka::model {
namespace {

using namespace test;

MlpConfig config_of(Activation kind, bool has_bias = false) { return {6, 20, kind, has_bias}; }

TEST(Mlp, MatchesAutograd) {
  for (const auto kind : {Activation::silu, Activation::gelu_tanh})
    for (const bool has_bias : {false, true}) {
      Mlp mlp(random_source(), "m", config_of(kind, has_bias));
      expect_matches_autograd(
          mlp, 3 * random_tensor("x", {33, 6}), stream_of({33}),
          [kind](const auto& x, const Leaves& w) { return mlp_reference(x, w, "m", kind); });
    }
}

TEST(Mlp, FrozenMixesMatchAutograd) {
  for (const std::string trained : {"none", "gate_proj", "up_proj", "down_proj"}) {
    Mlp mlp(
        random_source(at::kDouble, [&](const std::string& name) { return name.find(trained) != name.npos; }),
        "m", config_of(Activation::silu));
    expect_matches_autograd(
        mlp, random_tensor("x", {9, 6}), stream_of({9}),
        [](const auto& x, const Leaves& w) { return mlp_reference(x, w, "m", Activation::silu); });
  }
}

TEST(Mlp, KeepsGateAndUpButNotTheirProduct) {
  Mlp mlp(random_source(at::kFloat), "m", config_of(Activation::silu));
  Saved saved;
  mlp.forward(random_tensor("x", {9, 6}, at::kFloat), stream_of({9}), saved);
  EXPECT_EQ(saved.num_bytes(), 9 * 4 * (6 + 2 * 20));
}

TEST(Mlp, LoopsAndOperatorsAgreeInEveryDtype) {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto kind : {Activation::silu, Activation::gelu_tanh}) {
      const double tolerance = dtype == at::kDouble ? 1e-13 : dtype == at::kFloat ? 1e-6 : 2e-2;
      // The product through an identity of weights is the loop's own output.
      Mlp mlp(
          [&](const ParameterRequest& request) {
            return request.parameter(at::eye(request.shape[0], request.shape[1], at::TensorOptions(dtype)), false);
          },
          "m", {20, 20, kind, false});
      const auto x = 4 * random_tensor("x", {9, 20}, dtype), dy = random_tensor("dy", {9, 20}, dtype);
      Saved saved;
      EXPECT_LT(relative_error(mlp.forward(x, stream_of({9}), saved), operators::gated(kind, x, x)),
                tolerance);
      auto gate = x, up = x;
      operators::gated_backward(kind, dy, gate, up);
      EXPECT_LT(relative_error(mlp.backward(dy, stream_of({9}), saved), gate + up), tolerance) << dtype;
    }
}

TEST(Mlp, ExtremeGatesStayFinite) {
  const auto eye = [](const ParameterRequest& request) {
    return request.parameter(at::eye(request.shape[0], request.shape[1], at::TensorOptions(at::kFloat)), false);
  };
  Mlp mlp(eye, "m", {4, 4, Activation::silu, false});
  const auto y = mlp.apply(at::tensor({-1e4F, -100.0F, 100.0F, 1e4F}).unsqueeze(0));
  EXPECT_TRUE(at::allclose(y, at::tensor({0.0F, 0.0F, 1e4F, 1e8F}).unsqueeze(0), 1e-6, 1e-20)) << y;
  EXPECT_TRUE(mlp.apply(at::full({1, 4}, NAN)).isnan().all().item<bool>()) << "a NaN must not be hidden";
}

TEST(Activation, IsNamedAsInAConfig) {
  EXPECT_EQ(activation("silu"), Activation::silu);
  EXPECT_EQ(activation("gelu_pytorch_tanh"), Activation::gelu_tanh);
  EXPECT_THROW(activation("relu"), FormatError);
}

}  // namespace
}  // namespace duoka::model
