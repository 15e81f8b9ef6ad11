// SPDX-License-Identifier: Apache-2.0
// Cross entropy as a kernel does it for one row, run by lanes of the host: against autograd in f64, and
// against the loops of the CPU in every dtype.
#include "model/lane_loss.h"

#include "core/lanes.h"
#include "model/layer_fixture.h"
#include "model/row_loop.h"
#include "model/rows.h"

namespace duoka::model {
namespace {

using namespace test;

using Block = HostLanes<128>;

/// Calls body.operator()<width, T>() with the full width, where it divides `num_columns`, and with 1.
template <class Body>
void each_width(const at::Tensor& logits, const Body& body) {
  with_type_of(logits, [&]<class T>() {
    body.template operator()<1, T>();
    if (logits.numel() % full_width<T> == 0) body.template operator()<full_width<T>, T>();
  });
}

at::Tensor row(std::vector<double> logits, at::ScalarType dtype = at::kFloat) {
  return at::tensor(logits, at::kDouble).to(dtype);
}

TEST(LaneLoss, MatchesAutograd) {
  for (const int64_t num_columns : {1, 7, 130, 1000, 5000})
    for (const int64_t target : {int64_t{0}, num_columns / 2, num_columns - 1}) {
      const auto logits = 5 * random_tensor("logits", {num_columns});
      const auto leaf = logits.clone().set_requires_grad(true);
      const auto wanted = -leaf.log_softmax(0)[target];
      const auto gradient = torch::autograd::grad({0.3 * wanted}, {leaf})[0];
      each_width(logits, [&]<int width, class T>() {
        const auto found = logits.clone();
        T* const x = found.mutable_data_ptr<T>();
        EXPECT_NEAR(-lanes::cross_entropy<width>(Block(), x, num_columns, target), wanted.item<double>(),
                    1e-12);
        EXPECT_NEAR(-lanes::cross_entropy_backward<width>(Block(), x, num_columns, target, T{0.3}),
                    wanted.item<double>(), 1e-12);
        EXPECT_TRUE(at::allclose(found, gradient, 1e-12, 1e-14)) << num_columns << " " << target;
      });
    }
}

TEST(LaneLoss, IsThatOfTheLoopsInEveryDtype) {
  const int64_t v = 1040, target = 77;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto logits = 5 * random_tensor("logits", {v}, dtype);
    const double tolerance = dtype == at::kDouble ? 1e-13 : dtype == at::kFloat ? 2e-6 : 1e-2;
    each_width(logits, [&]<int width, class T>() {
      using A = Accumulate<T>;
      const auto found = logits.clone(), wanted = logits.clone();
      const double loss = rows::cross_entropy_backward(wanted.mutable_data_ptr<T>(), v, target, 0.3);
      EXPECT_NEAR(-lanes::cross_entropy<width>(Block(), found.const_data_ptr<T>(), v, target), loss, 1e-5);
      EXPECT_NEAR(
          -lanes::cross_entropy_backward<width>(Block(), found.mutable_data_ptr<T>(), v, target, A(0.3)),
          loss, 1e-5);
      EXPECT_LT(relative_error(found, wanted), tolerance) << dtype;
    });
  }
}

// A row whose columns are two ranks': parts of the sums give the gradient of the whole.
TEST(LaneLoss, PartsAreThoseOfTheLoops) {
  const int64_t v = 528;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto logits = 5 * random_tensor("logits", {v}, dtype);
    const double tolerance = dtype == at::kDouble ? 1e-13 : dtype == at::kFloat ? 2e-6 : 1e-2;
    each_width(logits, [&]<int width, class T>() {
      using A = Accumulate<T>;
      const auto found = logits.clone(), wanted = logits.clone();
      const T* const x = logits.const_data_ptr<T>();
      const A top = lanes::largest<width>(Block(), x, v);
      EXPECT_EQ(top, (rows::largest<T, A>(x, v)));
      const A above = top + A{1}, sum = rows::sum_exp(x, v, above);  // another rank has the largest
      EXPECT_NEAR(lanes::sum_exp_from<width>(Block(), x, v, above) / sum, 1, 2e-6);
      const A log_sum = std::log(sum);
      lanes::softmax<width>(Block(), found.mutable_data_ptr<T>(), v, above, log_sum, A(0.3));
      rows::softmax(wanted.mutable_data_ptr<T>(), v, above, log_sum, A(0.3));
      EXPECT_LT(relative_error(found, wanted), tolerance) << dtype;
    });
  }
}

TEST(LaneLoss, SurvivesLogitsAtTheEndOfF16) {
  const auto logits = row({60000, 60000, 0}, at::kHalf);
  auto* const x = logits.mutable_data_ptr<c10::Half>();
  EXPECT_NEAR(-lanes::cross_entropy_backward<1>(Block(), x, 3, 1, 1.0F), std::log(2.0), 1e-6);
  EXPECT_TRUE(at::allclose(logits.to(at::kFloat), at::tensor({0.5F, -0.5F, 0.0F}), 0, 1e-3)) << logits;
}

TEST(LaneLoss, DigitsOfAnAlmostSureTargetAreNotLost) {
  const double wanted = std::log1p(std::exp(-12.0));  // 6.1e-6; the spacing of f32 at 12 is 9.5e-7
  const auto logits = row({1012, 1000});
  EXPECT_NEAR(
      -lanes::cross_entropy_backward<1>(Block(), logits.mutable_data_ptr<float>(), 2, 0, 1.0F) / wanted, 1,
      0.02);
  EXPECT_NEAR(logits[0].item<double>() / -wanted, 1, 0.02);
}

// Lanes that saw nothing finite meet others that did.
TEST(LaneLoss, MaskedLogitsHaveNoProbability) {
  auto logits = at::full({4096}, -INFINITY, at::kFloat);
  logits[4000] = 1.0F;
  logits[5] = 1.0F;
  float* const x = logits.mutable_data_ptr<float>();
  EXPECT_NEAR(-lanes::cross_entropy_backward<4>(Block(), x, 4096, 5, 1.0F), std::log(2.0), 1e-6);
  EXPECT_NEAR(x[4000], 0.5, 1e-6);
  EXPECT_NEAR(x[5], -0.5, 1e-6);
  EXPECT_EQ(logits.abs().sum().item<double>(), std::abs(x[5]) + std::abs(x[4000]));
}

TEST(LaneLoss, NaNIsNotHidden) {
  for (const int64_t place : {0, 1, 100, 999}) {
    for (const double others : {0.0, -static_cast<double>(INFINITY)}) {
      const auto logits = at::full({1000}, others, at::kFloat);
      logits[place] = NAN;
      logits[3] = 1.0F;
      EXPECT_TRUE(std::isnan(lanes::cross_entropy<4>(Block(), logits.const_data_ptr<float>(), 1000, 3)))
          << place;
    }
  }
}

}  // namespace
}  // namespace duoka::model
