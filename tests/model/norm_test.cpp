// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/norm.h"

#include "model/operators.h"
#include "model/reference_layers.h"

namespace duoka::model {
namespace {

using namespace test;

RmsNorm norm_of(int64_t width, double eps = 1e-5, bool plus_one = false, bool is_trainable = true) {
  return RmsNorm(Parameter::whole("w", random_tensor("w", {width}), is_trainable), eps, plus_one);
}

TEST(RmsNorm, MatchesAutograd) {
  const auto reference = [](const auto& x, const Leaves& w) { return norm_reference(x, w.at("w"), 1e-5); };
  for (const int64_t width : {1, 7, 16, 50}) {
    RmsNorm norm = norm_of(width);
    // More rows than one block of the weight gradient's sum.
    expect_matches_autograd(norm, random_tensor("x", {150, width}), stream_of({150}), reference, 1e-10);
  }
  RmsNorm frozen = norm_of(7, 1e-5, false, false);
  expect_matches_autograd(frozen, random_tensor("x", {9, 7}), stream_of({9}), reference);
  RmsNorm heads = norm_of(6);
  expect_matches_autograd(heads, random_tensor("x", {9, 4, 6}), stream_of({9}), reference);
}

TEST(RmsNorm, PlusOneMatchesAutograd) {
  RmsNorm norm = norm_of(7, 1e-5, true);
  expect_matches_autograd(
      norm, random_tensor("x", {9, 7}), stream_of({9}),
      [](const auto& x, const Leaves& w) { return norm_reference(x, 1 + w.at("w"), 1e-5); });
}

/// One row through a norm with these weights.
at::Tensor normed(const std::vector<double>& x, const std::vector<double>& w, double eps, bool plus_one,
                  at::ScalarType dtype) {
  RmsNorm norm(Parameter::whole("w", at::tensor(w, at::kDouble).to(dtype), false), eps, plus_one);
  return norm.apply(at::tensor(x, at::kDouble).to(dtype).unsqueeze(0)).squeeze(0).to(at::kDouble);
}

TEST(RmsNorm, SquaresDoNotOverflowInF16) {
  const auto y = normed({300, -400, 0, 500}, {1, 1, 1, 1}, 1e-5, false, at::kHalf);
  EXPECT_TRUE(at::allclose(y, at::tensor({0.8485281, -1.131371, 0.0, 1.414213}, at::kDouble), 0, 1e-3)) << y;
  const auto wide = normed({300, -400, 0, 500}, {1, 1, 1, 1}, 1e-5, false, at::kFloat);
  EXPECT_TRUE(at::allclose(wide, at::tensor({0.8485281, -1.131371, 0.0, 1.414213}, at::kDouble), 0, 2e-6))
      << wide;
}

TEST(RmsNorm, EpsIsInsideTheRoot) {
  const std::vector<double> x(4, 0.001), w(4, 1.0);
  EXPECT_NEAR(normed(x, w, 1e-5, false, at::kFloat)[0].item<double>(), 0.3015114, 1e-6);
  EXPECT_NEAR(normed(x, w, 1e-6, false, at::kFloat)[0].item<double>(), 0.7071068, 1e-6);
}

TEST(RmsNorm, TheOneIsAddedInF32) {
  EXPECT_FLOAT_EQ(normed({1, 1}, {15.8125, 15.8125}, 0, true, at::kFloat)[0].item<float>(), 16.8125F);
  EXPECT_FLOAT_EQ(normed({2, 2}, {0, 0}, 0, true, at::kFloat)[0].item<float>(), 1.0F);
  // In bf16 1 + 15.8125 would be 16.75. Times 1.0104 that is nearest to 16.875; the right factor gives 17.
  const std::vector<double> row{1, 1, 1, 1, 1, 1, 1, 0.9140625}, weights(8, 15.8125);
  EXPECT_EQ(normed(row, weights, 0, true, at::kBFloat16)[0].item<double>(), 17.0);
}

TEST(RmsNorm, HalfTypesAreTheF32ResultRoundedOnce) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    const auto x = random_tensor("x", {33, 40}, dtype), w = random_tensor("w", {40}, dtype);
    RmsNorm half(Parameter::whole("w", w, false), 1e-6),
        wide(Parameter::whole("w", w.to(at::kFloat), false), 1e-6);
    EXPECT_TRUE(at::equal(half.apply(x), wide.apply(x.to(at::kFloat)).to(dtype)));
  }
}

TEST(RmsNorm, LoopsAndOperatorsAgree) {
  const auto x = random_tensor("x", {70, 24}), w = random_tensor("w", {24}),
             dy = random_tensor("dy", {70, 24});
  RmsNorm norm(Parameter::whole("w", w, true), 1e-5);
  Saved saved;
  const auto y = norm.forward(x, stream_of({70}), saved);
  const auto dx = norm.backward(dy, stream_of({70}), saved);
  const auto [wanted, rstd] = operators::rms_norm(x, w, 1e-5);
  const auto [wanted_dx, wanted_dw] = operators::rms_norm_backward(dy, x, rstd, w, true);
  EXPECT_LT(relative_error(y, wanted), 1e-12);
  EXPECT_LT(relative_error(dx, wanted_dx), 1e-12);
  EXPECT_LT(relative_error(norm.weight().grad, wanted_dw), 1e-12);
}

}  // namespace
}  // namespace duoka::model
