// SPDX-License-Identifier: Apache-2.0
#include "core/packed_product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace {

using namespace duoka;

struct Sizes {
  int64_t m, k, n;
};

class PackedProduct : public testing::TestWithParam<std::tuple<at::ScalarType, Sizes>> {
 protected:
  void SetUp() override {
    if (!has_packed_product()) GTEST_SKIP() << "the processor has no AVX2";
  }
  static at::ScalarType dtype() { return std::get<0>(GetParam()); }
  static Sizes sizes() { return std::get<1>(GetParam()); }
  /// Whole numbers, so that every sum is exact in f32. `is_turned`: the columns lie one after the other.
  static at::Tensor numbers(int64_t rows, int64_t columns, bool is_turned = false) {
    const at::Tensor x = at::randint(-8, 9, {rows, columns}, at::kFloat).to(dtype());
    return is_turned ? x.t().contiguous().t() : x;
  }
  static void expect_rounded(const at::Tensor& is, const at::Tensor& exact) {
    EXPECT_TRUE(at::equal(is, exact.to(at::kFloat).to(dtype()))) << (is.to(at::kDouble) - exact).abs().max();
  }
};

at::Tensor wide(const at::Tensor& x) { return x.to(at::kDouble); }

TEST_P(PackedProduct, IsTheExactOneRoundedOnceHoweverTheMatricesLie) {
  const auto [m, k, n] = sizes();
  for (const bool turned_a : {false, true})
    for (const bool turned_b : {false, true}) {
      const auto a = numbers(m, k, turned_a), b = numbers(k, n, turned_b);
      const auto c = at::full({m, n}, NAN, a.options());
      packed_product(c, a, b, false, 1);
      expect_rounded(c, wide(a).mm(wide(b)));
    }
}

TEST_P(PackedProduct, AddsIntoRowsAndColumnsOfAnother) {
  const auto [m, k, n] = sizes();
  for (const bool turned : {false, true}) {
    const auto a = numbers(m, k, turned), b = numbers(k, n, turned), all = numbers(m + 2, n + 3),
               before = all.clone();
    const auto c = all.narrow(0, 1, m).narrow(1, 2, n);
    packed_product(c, a, b, true, 1);
    const auto wanted = wide(before);
    wanted.narrow(0, 1, m).narrow(1, 2, n) += wide(a).mm(wide(b));
    // A turned product is rounded before it is added, in half precision.
    if (dtype() == at::kFloat)
      expect_rounded(all, wanted);
    else
      EXPECT_TRUE(at::allclose(wide(all), wanted, 0.02, 1));
  }
}

TEST_P(PackedProduct, ScalesByAlpha) {
  const auto [m, k, n] = sizes();
  const auto a = numbers(m, k), b = numbers(k, n, true), c = at::empty({m, n}, a.options());
  packed_product(c, a, b, false, 0.5);
  expect_rounded(c, 0.5 * wide(a).mm(wide(b)));
}

TEST_P(PackedProduct, DoesNotDependOnTheNumberOfThreads) {
  const auto [m, k, n] = sizes();
  const auto a = at::randn({m, k}).to(dtype()), b = at::randn({n, k}).to(dtype()).t();
  const auto one = at::empty({m, n}, a.options()), three = at::empty_like(one);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  packed_product(one, a, b, false, 1);
  at::set_num_threads(3);
  packed_product(three, a, b, false, 1);
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(one, three));
}

std::string name_of(const testing::TestParamInfo<PackedProduct::ParamType>& test) {
  const auto& [dtype, sizes] = test.param;
  return std::string(c10::toString(dtype)) + "_" + std::to_string(sizes.m) + "_" + std::to_string(sizes.k) +
         "_" + std::to_string(sizes.n);
}

// Sizes below, at and above those of blocks, panels and squares that are turned.
INSTANTIATE_TEST_SUITE_P(DtypesAndSizes, PackedProduct,
                         testing::Combine(testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                                          testing::Values(Sizes{1, 1, 1}, Sizes{5, 7, 3}, Sizes{8, 300, 400},
                                                          Sizes{400, 300, 8}, Sizes{16, 16, 16},
                                                          Sizes{300, 530, 410}, Sizes{2100, 20, 193})),
                         name_of);

}  // namespace
