// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/loss_plot.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/files.h"
#include "support/test_files.h"
#include "train/ticks.h"

namespace duoka::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

int count(const std::string& text, const std::string& what) {
  int number = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++number;
  return number;
}

TEST(Ticks, AreRoundAndInside) {
  EXPECT_THAT(round_ticks(0, 10, 5).positions, ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(round_ticks(-0.9, 2.1, 6).positions, ElementsAre(-0.5, 0, 0.5, 1, 1.5, 2));
  const Ticks small = round_ticks(1.0012, 1.0019, 4);
  EXPECT_THAT(small.positions.size(), ::testing::AllOf(::testing::Ge(3u), ::testing::Le(5u)));
  EXPECT_EQ(small.label(small.positions[0]), "1.0012");
  EXPECT_EQ(round_ticks(0, 5000, 5).label(2000), "2000");
  for (const double scale : {1e-7, 0.3, 17.0, 4e9}) {
    const Ticks ticks = round_ticks(-scale, 2 * scale, 6);
    EXPECT_GE(ticks.positions.size(), 3u) << scale;
    EXPECT_LE(ticks.positions.size(), 7u) << scale;
  }
}

TEST(LossCurves, AreTakenFromTheHistory) {
  const LossCurves curves = loss_curves({{1, 0, {{"loss", 3}}},
                                         {2, 0, {{"loss", NAN}}},
                                         {2, 0, {{"eval_loss", 2.5}}},
                                         {3, 0, {{"loss", 2}, {"grad_norm", 9}}}},
                                        "t");
  ASSERT_EQ(curves.train.size(), 2u);
  EXPECT_EQ(curves.train[1].step, 3);
  EXPECT_EQ(curves.eval[0].value, 2.5);
}

TEST(LossSvg, DrawsRawSmoothedAndEvaluation) {
  LossCurves curves;
  curves.title = "a < b & c";
  for (int step = 1; step <= 50; ++step)
    curves.train.push_back({static_cast<double>(step), 3 / std::sqrt(step)});
  curves.eval = {{10, 2}, {50, 1}};
  const std::string svg = loss_svg(curves);
  EXPECT_EQ(count(svg, "<polyline"), 3);
  EXPECT_EQ(count(svg, "<circle"), 2);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, HasSubstr("evaluation"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_EQ(count(svg, "<svg"), count(svg, "</svg>"));
}

TEST(LossSvg, StandsFewAndEqualPoints) {
  for (const std::vector<PlotPoint>& points :
       std::vector<std::vector<PlotPoint>>{{}, {{1, 2}}, {{1, 2}, {2, 2}, {3, 2}}, {{1, 1e-30}, {2, 1e30}}}) {
    LossCurves curves;
    curves.train = points;
    const std::string svg = loss_svg(curves);
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

TEST(LossSvg, IsWrittenToAFile) {
  const testing::TemporaryFolder out;
  write_loss_plot(out / "training_loss.svg", {});
  EXPECT_THAT(read_text_file(out / "training_loss.svg"), ::testing::StartsWith("<svg"));
}

}  // namespace
}  // namespace duoka::train
