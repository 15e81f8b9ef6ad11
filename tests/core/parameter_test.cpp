// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/parameter.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/deferred_products.h"
#include "duoka/core/error.h"
#include "support/test_files.h"

namespace duoka {
namespace {

using duoka::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

Parameter weight(at::ScalarType dtype, bool is_trainable = true) {
  return Parameter::whole("w", at::ones({3, 2}, dtype), is_trainable);
}

TEST(Parameter, WholeCoversTheTensor) {
  const Parameter w = weight(at::kFloat);
  EXPECT_EQ(w.global_shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(w.offset, (std::vector<int64_t>{0, 0}));
  EXPECT_TRUE(w.is_whole());
  EXPECT_EQ(w.numel(), 6);
  EXPECT_FALSE(w.grad.defined());
}

TEST(Parameter, SliceIsNotWhole) {
  Parameter slice = weight(at::kFloat);
  slice.value = slice.value.narrow(0, 1, 2);
  EXPECT_FALSE(slice.is_whole());
}

TEST(Parameter, OnlyMatricesDecay) {
  EXPECT_TRUE(weight(at::kFloat).has_weight_decay);
  EXPECT_FALSE(Parameter::whole("norm", at::ones({4}), true).has_weight_decay);
}

TEST(Parameter, GradientsOfHalfPrecisionAreF32) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat})
    EXPECT_EQ(weight(dtype).gradient_dtype(), at::kFloat) << dtype;
  EXPECT_EQ(weight(at::kDouble).gradient_dtype(), at::kDouble);
}

TEST(Accumulate, AddsUp) {
  Parameter w = weight(at::kFloat);
  const auto a = at::randn({3, 2}), b = at::randn({3, 2});
  w.accumulate(a);
  w.accumulate(b);
  EXPECT_TRUE(at::equal(w.grad, a + b));
  EXPECT_TRUE(at::equal(w.value, at::ones({3, 2}))) << "the value is the optimizer's";
}

// 256 + 1 is 256 in bf16: a sum in the weight's dtype would stay there.
TEST(Accumulate, SmallSharesAreNotLostInHalfPrecision) {
  Parameter w = weight(at::kBFloat16);
  for (const double share : {256.0, 1.0, 1.0, 1.0}) w.accumulate(at::full({3, 2}, share, at::kBFloat16));
  EXPECT_TRUE(at::equal(w.grad, at::full({3, 2}, 259.0)));
}

TEST(Accumulate, WritesIntoTheViewOfAnEngine) {
  Parameter w = weight(at::kFloat);
  const auto bucket = at::zeros({10});
  w.grad = bucket.narrow(0, 4, 6).view({3, 2});
  w.accumulate(at::ones({3, 2}));
  w.accumulate_product(at::ones({5, 3}), at::ones({5, 2}));
  w.accumulate_rows(at::tensor({0, 1, 2}, at::kLong), at::ones({3, 2}));
  EXPECT_TRUE(at::equal(bucket, at::cat({at::zeros({4}), at::full({6}, 7.0)})));
}

TEST(Accumulate, RefusesFrozenParametersAndOtherShapes) {
  Parameter frozen = weight(at::kFloat, false);
  const auto ids = at::tensor({0}, at::kLong);
  EXPECT_THAT(message_of<StateError>([&] {
                frozen.accumulate(at::ones({3, 2}));
              }),
              HasSubstr("frozen parameter w"));
  EXPECT_THROW(frozen.accumulate_product(at::ones({1, 3}), at::ones({1, 2})), StateError);
  EXPECT_THROW(frozen.accumulate_rows(ids, at::ones({1, 2})), StateError);
  EXPECT_FALSE(frozen.grad.defined());
  Parameter w = weight(at::kFloat);
  EXPECT_THAT(message_of<StateError>([&] {
                w.accumulate(at::ones({1, 2}));
              }),
              AllOf(HasSubstr("[1, 2]"), HasSubstr("parameter w"), HasSubstr("[3, 2]")));
  EXPECT_TRUE(at::equal(w.grad, at::zeros({3, 2})));
}

TEST(AccumulateProduct, IsTheTransposedProduct) {
  at::manual_seed(1);
  const auto dy = at::randn({7, 3}, at::kDouble), x = at::randn({7, 2}, at::kDouble);
  Parameter w = weight(at::kDouble);
  w.accumulate_product(dy, x);
  w.accumulate_product(dy, x);
  EXPECT_TRUE(at::allclose(w.grad, 2 * dy.t().mm(x), 1e-14));
}

TEST(AccumulateProduct, OfHalfPrecisionOperandsIsSummedInF32) {
  Parameter w = weight(at::kBFloat16);
  const auto one = at::ones({1, 3}, at::kBFloat16);
  w.accumulate_product(one, at::full({1, 2}, 256, at::kBFloat16));
  for (int i = 0; i < 3; ++i) w.accumulate_product(one, at::ones({1, 2}, at::kBFloat16));
  EXPECT_TRUE(at::equal(w.grad, at::full({3, 2}, 259.0)));
  EXPECT_THROW(w.accumulate_product(at::ones({4, 1}, at::kBFloat16), at::ones({4, 2}, at::kBFloat16)),
               StateError)
      << "a row would be spread over all rows";
}

TEST(AccumulateProduct, IsPutOffInsideAScope) {
  at::manual_seed(1);
  const auto dy = at::randn({7, 3}, at::kDouble), x = at::randn({7, 2}, at::kDouble);
  Parameter now = weight(at::kDouble), later = weight(at::kDouble);
  DeferredProducts products;
  for (const double scale : {1.0, 0.5}) {
    now.accumulate_product(dy * scale, x);
    const DeferredProducts::Scope scope(products);
    later.accumulate_product(dy * scale, x);
  }
  EXPECT_TRUE(later.grad.eq(0).all().item<bool>());
  products.add_all();
  EXPECT_TRUE(at::equal(later.grad, now.grad));
  products.add_all();
  EXPECT_TRUE(at::equal(later.grad, now.grad)) << "each is added once";
  later.accumulate_product(dy, x);
  EXPECT_FALSE(at::equal(later.grad, now.grad)) << "the scope has ended";
}

TEST(AccumulateProduct, OtherWorkIsPutOffAmongTheProducts) {
  Parameter w = weight(at::kDouble);
  DeferredProducts products;
  std::vector<double> seen;
  const auto look = [&] { seen.push_back(w.grad.sum().item<double>()); };
  const auto one = at::ones({1, 3}, at::kDouble), two = at::full({1, 2}, 2.0, at::kDouble);
  {
    const DeferredProducts::Scope scope(products);
    w.accumulate_product(one, two);
    DeferredProducts::current()->put_off([&] {
      look();
      w.accumulate_product(one, two);  // at once: it is its turn
      look();
    });
  }
  products.add_all();
  EXPECT_EQ(seen, (std::vector<double>{12, 24}));
}

TEST(AccumulateRows, RepeatedIdsAddUpAndOthersStay) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    Parameter table = weight(dtype);
    table.accumulate_rows(at::tensor({2, 0, 2}, at::kLong),
                          at::tensor({1, 2, 3, 4, 10, 20}).view({3, 2}).to(dtype));
    const auto wanted = at::tensor({3, 4, 0, 0, 11, 22}).view({3, 2}).to(table.gradient_dtype());
    EXPECT_TRUE(at::equal(table.grad, wanted)) << dtype;
  }
}

}  // namespace
}  // namespace duoka
