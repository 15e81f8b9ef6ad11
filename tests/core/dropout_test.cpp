// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/dropout.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "core/dropout_rows.h"
#include "duoka/core/error.h"
#include "duoka/core/philox.h"

namespace duoka {
namespace {

Stream stream_of(const std::vector<std::pair<int64_t, uint64_t>>& rows) {
  std::vector<std::vector<int32_t>> ids;
  for (const auto& row : rows) ids.emplace_back(static_cast<size_t>(row.first), 1);
  std::vector<RowView> views;
  for (size_t r = 0; r < rows.size(); ++r) views.push_back({ids[r], ids[r], rows[r].second});
  return make_stream(views);
}

at::Tensor kept(double p, uint64_t site, const Stream& stream, int64_t columns) {
  const auto ones = at::ones({stream.num_tokens(), columns});
  return Dropout(p, site).apply(ones, stream) != 0;
}

// Known answers of Random123's own test file for philox4x32-10.
TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_EQ(Philox::words({0, 0, 0, 0}, 0), (Philox::Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox::words({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (Philox::Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox::words({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Philox::Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomKey, DependsOnSeedAndName) {
  EXPECT_EQ(random_key(1, "a"), random_key(1, "a"));
  EXPECT_NE(random_key(1, "a"), random_key(2, "a"));
  EXPECT_NE(random_key(1, "a"), random_key(1, "b"));
}

TEST(Dropout, LoopTensorsAndDefinitionGiveTheSameBits) {
  const Stream stream = stream_of({{3, 0xFFFFFFFF00000007}, {1, 9}, {40, 0x8000000080000000}});
  for (const int64_t columns : {1, 63, 64, 65, 200}) {
    const uint64_t site = 0xF00DFACE12345678;
    const auto by_loop = kept(0.4, site, stream, columns);
    EXPECT_TRUE(at::equal(by_loop, Dropout(0.4, site).kept(stream, columns))) << columns;
    for (int64_t column = 0; column < columns; ++column) {
      const auto lane = static_cast<uint32_t>(column / 64 * 16 + column % 16);
      const auto words = Philox::words({7, 0xFFFFFFFF, 2, lane}, site);  // third token of the first row
      EXPECT_EQ(by_loop[2][column].item<bool>(),
                words[static_cast<size_t>(column % 64 / 16)] >= 0.4 * 4294967296.0);
    }
  }
}

TEST(Dropout, ColumnsOfAWiderTensorDropAsThere) {
  const Stream stream = stream_of({{3, 1}, {4, 2}});
  const auto x = at::randn({7, 300});
  const auto whole = Dropout(0.4, 5).apply(x, stream);
  for (const int64_t first : {0, 1, 16, 63, 64, 65, 130, 256})
    for (const int64_t count : {1, 15, 44}) {
      const Dropout part(0.4, 5, first);
      auto own = x.narrow(1, first, count).contiguous();
      const auto wanted = whole.narrow(1, first, count);
      EXPECT_TRUE(at::equal(part.apply(own, stream), wanted)) << first << " " << count;
      EXPECT_TRUE(at::equal(part.kept(stream, count), wanted != 0)) << first << " " << count;
      part.apply_(own, stream);
      EXPECT_TRUE(at::equal(own, wanted));
    }
}

TEST(Dropout, HasTheRateAskedFor) {
  const Stream stream = stream_of({{1000, 1}, {1000, 2}});
  for (const double p : {0.05, 0.5, 0.9}) {
    const double rate = 1 - kept(p, 3, stream, 500).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(rate, p, 5 * std::sqrt(p * (1 - p) / 1e6)) << "five standard deviations of 10^6 draws";
  }
}

TEST(Dropout, DoesNotDependOnPacking) {
  const auto together = kept(0.3, 3, stream_of({{5, 10}, {7, 11}, {4, 12}}), 100);
  const auto alone = kept(0.3, 3, stream_of({{7, 11}}), 100);
  const auto reordered = kept(0.3, 3, stream_of({{7, 11}, {4, 12}, {5, 10}}), 100);
  EXPECT_TRUE(at::equal(together.narrow(0, 5, 7), alone));
  EXPECT_TRUE(at::equal(together.narrow(0, 5, 7), reordered.narrow(0, 0, 7)));
  EXPECT_TRUE(at::equal(together.narrow(0, 0, 5), reordered.narrow(0, 11, 5)));
}

TEST(Dropout, TokensRowsAndSitesAreIndependent) {
  const Stream stream = stream_of({{400, 1}, {400, 2}});
  const auto here = kept(0.5, 3, stream, 500).to(at::kDouble),
             elsewhere = kept(0.5, 4, stream, 500).to(at::kDouble);
  const auto correlation = [](const at::Tensor& a, const at::Tensor& b) {
    return ((a - a.mean()) * (b - b.mean())).mean().item<double>() / (a.std() * b.std()).item<double>();
  };
  const double bound = 5 / std::sqrt(2e5);
  EXPECT_NEAR(correlation(here, elsewhere), 0, bound) << "sites";
  EXPECT_NEAR(correlation(here.narrow(0, 0, 400), here.narrow(0, 400, 400)), 0, bound) << "rows";
  EXPECT_NEAR(correlation(here.narrow(0, 0, 799), here.narrow(0, 1, 799)), 0, bound) << "positions";
  EXPECT_NEAR(correlation(here.narrow(1, 0, 499), here.narrow(1, 1, 499)), 0, bound) << "columns";
}

TEST(Dropout, ScalesWhatIsKept) {
  const Stream stream = stream_of({{20, 1}});
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const Dropout dropout(0.3, 5);
    const auto x = at::randn({20, 70}, at::kFloat).to(dtype), before = x.clone(),
               y = dropout.apply(x, stream);
    EXPECT_TRUE(at::equal(x, before));
    const auto wanted = at::where(dropout.kept(stream, 70), x * (1 / 0.7), 0);
    EXPECT_TRUE(at::equal(y, wanted)) << "as on a device without the loop, in " << dtype;
    auto in_place = x.clone();
    dropout.apply_(in_place, stream);
    EXPECT_TRUE(at::equal(in_place, y));
  }
}

TEST(Dropout, KeepsTheMean) {
  const Stream stream = stream_of({{1000, 1}, {1000, 2}});
  const auto x = at::ones({2000, 500}, at::kDouble);
  for (const double p : {0.1, 0.5, 0.9})
    EXPECT_NEAR(Dropout(p, 3).apply(x, stream).mean().item<double>(), 1, 5 * std::sqrt(p / (1 - p) / 1e6))
        << p;
}

// Dropped units of a token are as many as of independent draws: the spread of their number is the binomial
// one.
TEST(Dropout, DropsIndependently) {
  const auto mask = kept(0.3, 3, stream_of({{4000, 1}}), 500).to(at::kDouble);
  const double variance = mask.sum(1).var().item<double>(), binomial = 500 * 0.3 * 0.7;
  EXPECT_NEAR(variance / binomial, 1, 5 * std::sqrt(2.0 / 4000)) << "by tokens";
  const double by_column = mask.sum(0).var().item<double>() / (4000 * 0.3 * 0.7);
  EXPECT_NEAR(by_column, 1, 5 * std::sqrt(2.0 / 500)) << "by columns";
}

TEST(Dropout, HigherRateDropsMoreOfTheSameUnits) {
  const Stream stream = stream_of({{50, 1}});
  const auto some = kept(0.2, 3, stream, 100), fewer = kept(0.6, 3, stream, 100);
  EXPECT_TRUE(at::equal(some.logical_and(fewer), fewer));
}

TEST(Dropout, IsTheSameOnAnyNumberOfThreads) {
  const Stream stream = stream_of({{70, 1}, {1, 2}, {129, 3}});
  const auto x = at::randn({200, 700});
  const Dropout dropout(0.3, 5);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto alone = dropout.apply(x, stream);
  for (const int num_threads : {2, 3, 7}) {
    at::set_num_threads(num_threads);
    EXPECT_TRUE(at::equal(dropout.apply(x, stream), alone)) << num_threads;
  }
  at::set_num_threads(before);
}

// What apply() does is a symmetric matrix, so it is its own backward.
TEST(Dropout, IsItsOwnBackward) {
  const Stream stream = stream_of({{20, 1}});
  const Dropout dropout(0.4, 5);
  const auto x = at::randn({20, 70}, at::kDouble), dy = at::randn({20, 70}, at::kDouble);
  auto dx = dy.clone();
  dropout.apply_(dx, stream);
  EXPECT_NEAR((dropout.apply(x, stream) * dy).sum().item<double>(), (x * dx).sum().item<double>(), 1e-11);
}

TEST(Dropout, DoesNothingWhereItShouldNot) {
  Stream stream = stream_of({{20, 1}});
  const auto x = at::randn({20, 8});
  EXPECT_TRUE(Dropout(0, 5).apply(x, stream).is_same(x));
  stream.is_training = false;
  EXPECT_TRUE(Dropout(0.5, 5).apply(x, stream).is_same(x));
  EXPECT_FALSE(Dropout(0.5, 5).is_active(stream));
  auto y = x.clone();
  Dropout(0.5, 5).apply_(y, stream);
  EXPECT_TRUE(at::equal(y, x));
}

TEST(Dropout, RefusesWhatCannotBe) {
  for (const double p : {-0.1, 1.0, 2.0, static_cast<double>(NAN)}) EXPECT_THROW(Dropout(p, 1), ConfigError);
  const Stream stream = stream_of({{20, 1}});
  EXPECT_THROW(Dropout(0.5, 1).apply(at::ones({19, 8}), stream), StateError);
  EXPECT_THROW(Dropout(0.5, 1).apply(at::ones({8, 20}).t(), stream), StateError) << "not contiguous";
  Stream without_keys = stream;
  without_keys.segment_keys.clear();
  EXPECT_THROW(Dropout(0.5, 1).apply(at::ones({20, 8}), without_keys), StateError);
}

}  // namespace
}  // namespace duoka
