// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/head.h"

#include "duoka/core/error.h"
#include "model/cross_entropy.h"
#include "model/operators.h"
#include "model/reference_layers.h"

namespace duoka::model {
namespace {

using namespace test;

constexpr int64_t vocab = 16, width = 6;

RmsNorm norm_of(const ParameterSource& source) { return RmsNorm(source({"norm", {width}}), 1e-6); }

at::Tensor loss_of(const at::Tensor& x, const Leaves& w, const Stream& stream) {
  return loss_reference(norm_reference(x, w.at("norm"), 1e-6).matmul(w.at("head").t()), stream);
}

void check(
    const Stream& stream, int64_t chunk_bytes, double scale,
    const std::function<bool(const std::string&)>& is_trainable = [](auto&) { return true; }) {
  const auto source = random_source(at::kDouble, is_trainable);
  Head head(norm_of(source), source({"head", {vocab, width}}), chunk_bytes);
  const auto x = random_tensor("x", {stream.num_tokens(), width});
  const Leaves leaves = leaves_of(head.parameters());
  const auto leaf = x.clone().set_requires_grad(true);
  const auto wanted = loss_of(leaf, leaves, stream);
  const auto dy = at::full({}, scale, at::kDouble);

  const auto [loss, dx] = head.loss_and_gradient(x, stream, scale);
  EXPECT_NEAR(loss / wanted.item<double>(), 1, 1e-13);
  EXPECT_NEAR(head.loss_sum(x, stream) / loss, 1, 1e-13);
  EXPECT_LT(relative_error(dx, torch::autograd::grad({wanted}, {leaf}, {dy}, true)[0]), 1e-11);
  expect_gradients(head.parameters(), leaves, wanted, dy, 1e-11);
}

TEST(Head, MatchesAutograd) {
  check(stream_of({9, 14}), Head::default_chunk_bytes, 1);
  check(stream_of({9, 14}, vocab, 4), Head::default_chunk_bytes, 0.125);
}

TEST(Head, ChunksMatchAutograd) {
  for (const int64_t rows : {0, 1, 3, 7, 100}) check(stream_of({9, 14}, vocab, 2), rows * vocab * 8, 0.5);
}

TEST(Head, FrozenMixesMatchAutograd) {
  for (const std::string trained : {"none", "norm", "head"})
    check(stream_of({9, 14}, vocab, 2), 5 * vocab * 8, 0.5,
          [&](const std::string& name) { return name == trained; });
}

TEST(Head, TiedAddsIntoTheSharedGradient) {
  const auto source = random_source();
  Parameter shared = source({"head", {vocab, width}});
  shared.grad = at::ones({vocab, width}, at::kDouble);
  Head tied(norm_of(source), &shared), own(norm_of(source), source({"head", {vocab, width}}));
  const Stream stream = stream_of({9});
  const auto x = random_tensor("x", {9, width});
  tied.loss_and_gradient(x, stream, 1);
  own.loss_and_gradient(x, stream, 1);
  EXPECT_TRUE(tied.is_tied());
  EXPECT_EQ(tied.parameters()[1], &shared);
  EXPECT_LT(relative_error(shared.grad, own.weight().grad + 1), 1e-13);
}

TEST(Head, NothingTrainedIsNoLoss) {
  const auto source = random_source();
  Head head(norm_of(source), source({"head", {vocab, width}}));
  const Stream stream = stream_of({5}, vocab, 5);
  ASSERT_EQ(stream.num_trained, 0);
  const auto x = random_tensor("x", {5, width});
  const auto [loss, dx] = head.loss_and_gradient(x, stream, 1);
  EXPECT_EQ(loss, 0);
  EXPECT_EQ(head.loss_sum(x, stream), 0);
  EXPECT_TRUE(at::equal(dx, at::zeros_like(x)));
  EXPECT_FALSE(head.weight().grad.defined());
}

TEST(Head, LogitsOfSomeRows) {
  const auto source = random_source();
  Head head(norm_of(source), source({"head", {vocab, width}}));
  const auto x = random_tensor("x", {5, width});
  const auto all = head.logits(x);
  EXPECT_EQ(all.size(1), vocab);
  EXPECT_LT(relative_error(head.logits(x, at::tensor({3, 1}, at::kLong)),
                           all.index_select(0, at::tensor({3, 1}, at::kLong))),
            1e-14);
}

TEST(CrossEntropy, SurvivesLogitsAtTheEndOfF16) {
  auto logits = at::tensor({60000.0F, 60000.0F, 0.0F}).to(at::kHalf).unsqueeze(0);
  EXPECT_NEAR(cross_entropy(logits, at::tensor({1}, at::kLong)).item<double>(), std::log(2.0), 1e-3);
  cross_entropy_backward_(logits, at::tensor({1}, at::kLong), 1);
  EXPECT_TRUE(at::allclose(logits.to(at::kFloat), at::tensor({0.5F, -0.5F, 0.0F}).unsqueeze(0), 0, 1e-3))
      << logits;
}

TEST(CrossEntropy, LoopsAndOperatorsAgreeInEveryDtype) {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    auto logits = 5 * random_tensor("logits", {40, 131}, dtype), same = logits.clone();
    const auto targets = at::arange(40, at::kLong) * 3;
    const double tolerance = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 2e-6 : 1e-2;
    const double loss = operators::cross_entropy(logits, targets).item<double>();
    EXPECT_NEAR(cross_entropy(logits, targets).item<double>() / loss, 1, 1e-6);
    EXPECT_NEAR(cross_entropy_backward_(logits, targets, 0.3).item<double>() / loss, 1, 1e-6);
    EXPECT_NEAR(operators::cross_entropy_backward_(same, targets, 0.3).item<double>() / loss, 1, 1e-6);
    EXPECT_LT(relative_error(logits, same), tolerance) << dtype;
  }
}

TEST(CrossEntropy, DigitsOfAnAlmostSureTargetAreNotLost) {
  const double wanted = std::log1p(std::exp(-12.0));  // 6.1e-6; the spacing of f32 at 12 is 9.5e-7
  auto logits = at::tensor({1012.0F, 1000.0F}).unsqueeze(0);
  const auto target = at::tensor({0}, at::kLong);
  EXPECT_NEAR(cross_entropy(logits, target).item<double>() / wanted, 1, 0.02);
  EXPECT_NEAR(operators::cross_entropy(logits, target).item<double>() / wanted, 1, 0.02);
  cross_entropy_backward_(logits, target, 1);
  EXPECT_NEAR(logits[0][0].item<double>() / -wanted, 1, 0.02);
}

// Were another taken for it, e^500 would leave f32.
TEST(CrossEntropy, FindsTheLargestLogitInAnyColumn) {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t columns : {1, 63, 64, 65, 128, 200}) {
      const auto targets = at::arange(columns, at::kLong);
      const auto logits = at::eye(columns, at::kDouble).mul_(1000).sub_(500).to(dtype);
      EXPECT_EQ(cross_entropy(logits, targets).item<double>(), 0) << columns << " columns in " << dtype;
    }
}

TEST(CrossEntropy, RefusesTargetsOutsideTheLogits) {
  const auto logits = at::zeros({1, 4});
  EXPECT_THROW(cross_entropy(logits, at::tensor({4}, at::kLong)), StateError);
  EXPECT_THROW(cross_entropy(logits, at::tensor({ignore_index}, at::kLong)), StateError);
}

TEST(CrossEntropy, NaNIsNotHidden) {
  const auto logits = at::tensor({0.0F, NAN, 1.0F}).unsqueeze(0);
  EXPECT_TRUE(std::isnan(cross_entropy(logits, at::tensor({0}, at::kLong)).item<double>()));
}

}  // namespace
}  // namespace duoka::model
