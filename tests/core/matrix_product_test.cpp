// SPDX-License-Identifier: Apache-2.0
#include "core/matrix_product.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace {

using namespace duoka;

class MatrixProduct : public testing::TestWithParam<at::ScalarType> {
 protected:
  static at::Tensor numbers(int64_t rows, int64_t columns) {
    return at::randint(-8, 9, {rows, columns}, at::kFloat).to(GetParam());  // exact in every dtype
  }
  static void expect_equal(const at::Tensor& is, const at::Tensor& wanted) {
    EXPECT_TRUE(at::equal(is.to(at::kDouble), wanted)) << is << wanted;
  }
};

at::Tensor wide(const at::Tensor& x) { return x.to(at::kDouble); }

TEST_P(MatrixProduct, OfWholeTransposedAndStridedMatrices) {
  const auto a = numbers(5, 7), b = numbers(7, 3), wide_rows = numbers(5, 9);
  expect_equal(product(a, b), wide(a).mm(wide(b)));
  expect_equal(product(b.t(), a.t()), wide(b).t().mm(wide(a).t()));
  expect_equal(product(wide_rows.narrow(1, 1, 7), b), wide(wide_rows.narrow(1, 1, 7)).mm(wide(b)));
}

TEST_P(MatrixProduct, IntoRowsOfAnother) {
  const auto a = numbers(2, 7), b = numbers(7, 3), all = numbers(6, 3), before = all.clone();
  multiply_into(all.narrow(0, 1, 2), a, b, 1, 0.5);
  expect_equal(all.narrow(0, 1, 2), wide(before).narrow(0, 1, 2) + 0.5 * wide(a).mm(wide(b)));
  expect_equal(all.narrow(0, 3, 3), wide(before).narrow(0, 3, 3));
  expect_equal(all.narrow(0, 0, 1), wide(before).narrow(0, 0, 1));
}

TEST_P(MatrixProduct, ForgetsWhatWasThereWithBetaZero) {
  const auto a = numbers(2, 7), b = numbers(7, 3), c = at::full({2, 3}, NAN, a.options());
  multiply_into(c, a, b);
  expect_equal(c, wide(a).mm(wide(b)));
}

TEST_P(MatrixProduct, OfNothing) {
  const auto c = numbers(2, 3), before = c.clone();
  multiply_into(c, numbers(2, 0), numbers(0, 3), 1);
  expect_equal(c, wide(before));
  multiply_into(c, numbers(2, 0), numbers(0, 3));
  expect_equal(c, wide(before) * 0);
  EXPECT_EQ(product(numbers(0, 4), numbers(4, 3)).sizes(), at::IntArrayRef({0, 3}));
}

TEST_P(MatrixProduct, LinearWithAndWithoutBias) {
  const auto x = numbers(4, 6), w = numbers(3, 6), bias = numbers(1, 3).squeeze(0);
  expect_equal(affine(x, w), wide(x).mm(wide(w).t()));
  expect_equal(affine(x, w, bias), wide(x).mm(wide(w).t()) + wide(bias));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, MatrixProduct,
                         testing::Values(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

}  // namespace
