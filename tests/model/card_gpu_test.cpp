// SPDX-License-Identifier: Apache-2.0
// Kernels of a card against tensor operations in f64 on the CPU. Skips where there is no card.
#include "duoka/core/dropout.h"
#include "model/card.h"
#include "model/layer_fixture.h"
#include "model/operators.h"
#include "model/row_loop.h"

namespace duoka::model {
namespace {

using namespace test;

class OnCard : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA card, or a build without CUDA";
  }
  /// Random numbers that the dtype has, on the CPU.
  at::Tensor rounded(const std::string& name, at::IntArrayRef shape, double size = 1) const {
    return (size * random_tensor(name, shape)).to(GetParam()).to(at::kDouble);
  }
  at::Tensor there(const at::Tensor& x) const { return x.to(at::kCUDA, GetParam()); }
  /// In the dtype of the arithmetic.
  at::Tensor wide_there(const at::Tensor& x) const { return x.to(at::kCUDA, accumulate_dtype(GetParam())); }
  /// `found` is rounded once, by the dtype, from an arithmetic in f32 (f64).
  void expect_near(const at::Tensor& found, const at::Tensor& wanted, const char* what) const {
    const double unit = GetParam() == at::kBFloat16 ? 0x1p-8 : GetParam() == at::kHalf ? 0x1p-11 : 0;
    EXPECT_LT(relative_error(found.cpu(), wanted), unit + arithmetic()) << what;
  }
  /// `found` is not rounded to the dtype.
  void expect_wide(const at::Tensor& found, const at::Tensor& wanted, const char* what) const {
    EXPECT_LT(relative_error(found.cpu(), wanted), arithmetic()) << what;
  }
  double arithmetic() const { return GetParam() == at::kDouble ? 1e-12 : 1e-5; }
};

INSTANTIATE_TEST_SUITE_P(Dtypes, OnCard, ::testing::Values(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& dtype) { return std::string(c10::toString(dtype.param)); });

TEST_P(OnCard, Norm) {
  for (const int64_t width : {1, 7, 64, 100, 576, 2048, 8200})
    for (const int64_t num_rows : {1, 150}) {
      const auto x = rounded("x", {num_rows, width}), w = rounded("w", {width}),
                 dy = rounded("dy", {num_rows, width});
      const auto [y, rstd] = operators::rms_norm(x, w, 1e-5);
      const auto [dx, dw] = operators::rms_norm_backward(dy, x, rstd, w, true);
      const auto [found, found_rstd] = card::rms_norm(there(x), wide_there(w), 1e-5);
      expect_near(found, y, "y");
      expect_wide(found_rstd, rstd, "rstd");
      const auto [found_dx, found_dw] =
          card::rms_norm_backward(there(dy), there(x), found_rstd, wide_there(w), true);
      expect_near(found_dx, dx, "dx");
      expect_wide(found_dw, dw, "dw");
      EXPECT_FALSE(std::get<1>(card::rms_norm_backward(there(dy), there(x), found_rstd, wide_there(w), false))
                       .defined());
    }
}

TEST_P(OnCard, Rotation) {
  for (const int64_t half : {3, 8, 64})
    for (const bool inverse : {false, true}) {
      const auto wide = rounded("x", {40, 6, 2 * half + 8});
      const auto turns = random_tensor("turns", {40, half});
      const Rope::Angles angles{turns.cos().to(at::kFloat).to(at::kDouble),
                                turns.sin().to(at::kFloat).to(at::kDouble)};
      const Rope::Angles card_angles{wide_there(angles.cos), wide_there(angles.sin)};
      auto wanted = wide.clone(), found = there(wide);
      operators::rotate_(wanted, angles, inverse);
      card::rotate_(found, card_angles, inverse);
      expect_near(found, wanted, "heads that turn in part");
      auto all = there(wide), some = all.narrow(1, 2, 3);
      card::rotate_(some, card_angles, inverse);
      expect_near(all.narrow(1, 2, 3), wanted.narrow(1, 2, 3), "heads among others");
      EXPECT_TRUE(at::equal(all.narrow(1, 0, 2).cpu(), there(wide).narrow(1, 0, 2).cpu())) << "which stay";
    }
}

TEST_P(OnCard, Gates) {
  for (const auto kind : {Activation::silu, Activation::gelu_tanh})
    for (const int64_t count : {1, 333, 40000}) {
      const auto gate = rounded("gate", {count}, 4), up = rounded("up", {count}), dy = rounded("dy", {count});
      auto dgate = gate.clone(), dup = up.clone(), found_dgate = there(gate), found_dup = there(up);
      operators::gated_backward(kind, dy, dgate, dup);
      card::gated_backward(kind, there(dy), found_dgate, found_dup);
      expect_near(card::gated(kind, there(gate), there(up)), operators::gated(kind, gate, up), "product");
      expect_near(found_dgate, dgate, "dgate");
      expect_near(found_dup, dup, "dup");
    }
}

TEST_P(OnCard, CrossEntropy) {
  for (const int64_t v : {1, 131, 49152, 151936}) {
    const int64_t n = 9;
    const auto logits = rounded("logits", {n, v}, 5);
    const auto targets = at::arange(n, at::kLong).mul_(7919).remainder(v), there_targets = targets.cuda();
    auto gradient = logits.clone(), found = there(logits);
    const double loss = operators::cross_entropy_backward_(gradient, targets, 0.3).item<double>();
    const double size = 1 + std::abs(loss);
    EXPECT_NEAR(card::cross_entropy(found, there_targets).item<double>(), loss, arithmetic() * size);
    EXPECT_NEAR(card::cross_entropy_backward_(found, there_targets, 0.3).item<double>(), loss,
                arithmetic() * size);
    if (v > 1)
      expect_near(found, gradient, "gradient");
    else
      EXPECT_LT(found.abs().max().item<double>(), 1e-12);
  }
}

TEST_P(OnCard, PartsOfCrossEntropy) {
  for (const int64_t v : {131, 24576}) {
    const auto logits = rounded("logits", {9, v}, 5);
    const auto top = operators::largest(logits);
    EXPECT_TRUE(at::equal(card::largest(there(logits)).cpu().to(at::kDouble), top));
    const auto above = top + 1, sums = operators::sum_exp(logits, above), log_sums = sums.log();
    expect_wide(card::sum_exp(there(logits), wide_there(above)), sums, "sums");
    auto wanted = logits.clone(), found = there(logits);
    operators::softmax_(wanted, above, log_sums, 0.3);
    card::softmax_(found, wide_there(above), wide_there(log_sums), 0.3);
    expect_near(found, wanted, "softmax");
  }
}

TEST_P(OnCard, DropsTheSameUnitsToTheBit) {
  Stream stream = stream_of({3, 1, 40}), card_stream = stream;
  for (at::Tensor* x : {&card_stream.positions, &card_stream.segments}) *x = x->cuda();
  for (const int64_t columns : {1, 65, 576})
    for (const int64_t first : {0, 20}) {
      const Dropout dropout(0.3, 0xF00DFACE12345678, first);
      const auto x = random_tensor("x", {44, columns}).to(GetParam());
      const auto wanted = dropout.apply(x, stream);
      auto on_card = x.cuda();
      EXPECT_TRUE(at::equal(dropout.apply(on_card, card_stream).cpu(), wanted)) << columns << " " << first;
      dropout.apply_(on_card, card_stream);
      EXPECT_TRUE(at::equal(on_card.cpu(), wanted)) << "in place, " << columns << " " << first;
    }
}

}  // namespace
}  // namespace duoka::model
