// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/tensor_axis.h"

#include <numeric>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "support/run_ranks.h"

namespace duoka::parallel {
namespace {

using model::Part;

TEST(Parts, AreContiguousAndTheLastOnesSmaller) {
  const auto counts = [](int64_t total, int size) {
    std::vector<int64_t> all;
    int64_t begin = 0;
    for (int rank = 0; rank < size; ++rank) {
      const Part part = model::part_of(total, rank, size);
      EXPECT_EQ(part.begin, begin);
      begin += part.count;
      all.push_back(part.count);
    }
    EXPECT_EQ(begin, total);
    return all;
  };
  EXPECT_EQ(counts(8, 4), (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(counts(9, 4), (std::vector<int64_t>{3, 3, 3, 0}));
  EXPECT_EQ(counts(10, 4), (std::vector<int64_t>{3, 3, 3, 1}));
  EXPECT_EQ(counts(1, 4), (std::vector<int64_t>{1, 0, 0, 0}));
  EXPECT_EQ(counts(0, 2), (std::vector<int64_t>{0, 0}));
}

/// Number `column` of row `row`.
at::Tensor rows_of(int64_t first, int64_t count) {
  return at::arange(first * 3, (first + count) * 3, at::kDouble).view({count, 3});
}

TEST(TensorAxis, GathersAndScattersUnevenRows) {
  const std::vector<std::vector<int64_t>> lists = {{2, 2, 2}, {2, 2, 1}, {2, 1, 0}, {1, 0, 0},
                                                   {0, 3, 1}, {0, 0, 4}, {3, 0, 3}};
  test::run_ranks(3, [&](const comm::Group& group) {
    const auto axis = make_tensor_axis(group);
    for (const auto& counts : lists) {
      const auto rank = static_cast<size_t>(group.rank());
      const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0}),
                    begin = std::accumulate(counts.begin(), counts.begin() + group.rank(), int64_t{0});
      const auto own = rows_of(begin, counts[rank]), all = rows_of(0, total);
      EXPECT_TRUE(at::equal(axis->gather_rows(own, counts), all));
      EXPECT_TRUE(at::equal(axis->scatter_sum_rows(all * (group.rank() + 1), counts), own * 6));
      EXPECT_TRUE(at::equal(own, rows_of(begin, counts[rank]))) << "the argument belongs to the caller";
    }
  });
}

TEST(TensorAxis, TakesRowsThatAreNotContiguous) {
  test::run_ranks(2, [](const comm::Group& group) {
    const auto axis = make_tensor_axis(group);
    const auto own = rows_of(3 * group.rank(), 3).t();  // [3, 3], columns first
    EXPECT_TRUE(at::equal(axis->gather_rows(own, {3, 3}), at::cat({rows_of(0, 3).t(), rows_of(3, 3).t()})));
    const auto all = at::ones({3, 4}).t();
    EXPECT_TRUE(at::equal(axis->scatter_sum_rows(all, {2, 2}), at::full({2, 3}, 2)));
  });
}

TEST(TensorAxis, SumsAndMaximaAreThoseOfAllRanks) {
  test::run_ranks(3, [](const comm::Group& group) {
    const auto axis = make_tensor_axis(group);
    at::Tensor sum = at::full({2}, group.rank(), at::kDouble), top = sum.clone();
    axis->sum_(sum);
    axis->max_(top);
    EXPECT_TRUE(at::equal(sum, at::full({2}, 3, at::kDouble)));
    EXPECT_TRUE(at::equal(top, at::full({2}, 2, at::kDouble)));
  });
}

TEST(TensorAxis, RefusesRowsThatDoNotFit) {
  test::run_ranks(2, [](const comm::Group& group) {
    const auto axis = make_tensor_axis(group);
    EXPECT_THROW(axis->gather_rows(rows_of(0, 2), {3, 3}), StateError);
    EXPECT_THROW(axis->scatter_sum_rows(rows_of(0, 2), {3, 3}), StateError);
    EXPECT_THROW(axis->gather_rows(rows_of(0, 3), {3, 3, 3}), StateError);
  });
}

TEST(TensorAxis, OneRankReturnsItsArgument) {
  const auto axis = make_tensor_axis(comm::Group());
  const auto x = rows_of(0, 2);
  EXPECT_TRUE(axis->is_solo());
  EXPECT_TRUE(axis->gather_rows(x, {2}).is_same(x));
  EXPECT_TRUE(axis->scatter_sum_rows(x, {2}).is_same(x));
  EXPECT_FALSE(axis->slice(0, 5));
}

}  // namespace
}  // namespace duoka::parallel
