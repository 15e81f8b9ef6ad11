// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/loss_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "train/ticks.h"

namespace duoka::train {

namespace {

// Of the picture, in its own units; it scales to any size.
constexpr double width = 800, height = 480;
constexpr double left = 76, right = 24, top = 48, bottom = 60;

struct Range {
  double low = 0, high = 1;
  double share(double value) const { return (value - low) / (high - low); }
};

/// All points' range by one coordinate, widened a little; never empty.
Range range_of(const LossCurves& curves, double PlotPoint::*coordinate) {
  Range range{INFINITY, -INFINITY};
  for (const auto* points : {&curves.train, &curves.eval})
    for (const PlotPoint& point : *points) {
      range.low = std::min(range.low, point.*coordinate);
      range.high = std::max(range.high, point.*coordinate);
    }
  if (range.low > range.high) return {0, 1};
  const double margin = range.high > range.low ? 0.04 * (range.high - range.low) : 0.5;
  return {range.low - margin, range.high + margin};
}

class Picture {
 public:
  explicit Picture(const LossCurves& curves)
      : steps_(range_of(curves, &PlotPoint::step)), values_(range_of(curves, &PlotPoint::value)) {}

  void axes();
  void title(const std::string& words) { label(width / 2, 28, "middle", escaped(words), 17); }
  void curve(const std::vector<PlotPoint>& points, const char* style);
  void dots(const std::vector<PlotPoint>& points, const char* style);
  void legend(const LossCurves& curves);
  std::string finished() const;

 private:
  double x(double step) const { return left + steps_.share(step) * (width - left - right); }
  double y(double value) const { return height - bottom - values_.share(value) * (height - top - bottom); }
  static std::string number(double value) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.1f", value);
    return buffer;
  }
  static std::string escaped(const std::string& words);
  void line(double x1, double y1, double x2, double y2, const char* style);
  void label(double x, double y, const char* anchor, const std::string& words, int size = 12);

  Range steps_, values_;
  std::string body_;
};

std::string Picture::escaped(const std::string& words) {
  std::string out;
  for (const char c : words) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

void Picture::line(double x1, double y1, double x2, double y2, const char* style) {
  body_ += text("<line x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"", number(x2), "\" y2=\"",
                number(y2), "\" ", style, "/>\n");
}

void Picture::label(double x, double y, const char* anchor, const std::string& words, int size) {
  body_ += text("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\" font-size=\"",
                size, "\">", words, "</text>\n");
}

void Picture::axes() {
  constexpr const char* grid = "stroke=\"#e4e4e4\"";
  constexpr const char* axis = "stroke=\"#444\"";
  const Ticks value_ticks = round_ticks(values_.low, values_.high, 6);
  for (const double tick : value_ticks.positions) {
    line(left, y(tick), width - right, y(tick), grid);
    label(left - 8, y(tick) + 4, "end", value_ticks.label(tick));
  }
  const Ticks step_ticks = round_ticks(steps_.low, steps_.high, 8);
  for (const double tick : step_ticks.positions) {
    if (tick < 0 || tick != std::round(tick)) continue;  // steps are whole
    line(x(tick), height - bottom, x(tick), height - bottom + 5, axis);
    label(x(tick), height - bottom + 20, "middle", step_ticks.label(tick));
  }
  line(left, height - bottom, width - right, height - bottom, axis);
  line(left, top, left, height - bottom, axis);
  label((left + width - right) / 2, height - 14, "middle", "step", 13);
  body_ += text("<text transform=\"translate(20 ", number((top + height - bottom) / 2),
                ") rotate(-90)\" text-anchor=\"middle\" font-size=\"13\">loss</text>\n");
}

void Picture::curve(const std::vector<PlotPoint>& points, const char* style) {
  if (points.size() < 2) return dots(points, "fill=\"#1f5fb4\"");
  body_ += text("<polyline fill=\"none\" stroke-linejoin=\"round\" ", style, " points=\"");
  for (const PlotPoint& point : points)
    body_ += text(number(x(point.step)), ",", number(y(point.value)), " ");
  body_ += "\"/>\n";
}

void Picture::dots(const std::vector<PlotPoint>& points, const char* style) {
  for (const PlotPoint& point : points)
    body_ += text("<circle cx=\"", number(x(point.step)), "\" cy=\"", number(y(point.value)), "\" r=\"4\" ",
                  style, "/>\n");
}

std::string Picture::finished() const {
  return text("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", width, " ", height, "\" width=\"",
              width, "\" height=\"", height,
              "\" font-family=\"Helvetica, Arial, sans-serif\" fill=\"#222\">\n",
              "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", body_, "</svg>\n");
}

constexpr const char* raw_style = "stroke=\"#a9c4e6\" stroke-width=\"1.2\"";
constexpr const char* smooth_style = "stroke=\"#1f5fb4\" stroke-width=\"2.2\"";
constexpr const char* eval_line_style = "stroke=\"#d1632a\" stroke-width=\"1.2\" stroke-dasharray=\"4 3\"";
constexpr const char* eval_style = "fill=\"#d1632a\"";

void Picture::legend(const LossCurves& curves) {
  double x = width - right - 120, y = top + 14;
  const auto entry = [&](const char* style, const char* words) {
    line(x, y - 4, x + 22, y - 4, style);
    label(x + 30, y, "start", words);
    y += 18;
  };
  if (!curves.train.empty()) {
    entry(raw_style, "each log");
    entry(smooth_style, "smoothed");
  }
  if (!curves.eval.empty()) entry(eval_line_style, "evaluation");
}

/// Mean of all points weighted by exp(-distance / (n / 20)), to both sides, so that the curve lies in the
/// middle of the points and does not trail behind a falling loss. Linear in n: one pass from each side.
std::vector<PlotPoint> smoothed(std::vector<PlotPoint> points) {
  const double keep = std::exp(-20 / static_cast<double>(std::max<size_t>(points.size(), 1)));
  std::vector<double> sums(points.size(), 0), weights(points.size(), 0);
  const auto pass = [&](size_t i, double& sum, double& weight) {
    sums[i] += sum;
    weights[i] += weight;
    sum = keep * (sum + points[i].value);
    weight = keep * (weight + 1);
  };
  double sum = 0, weight = 0;
  for (size_t i = 0; i < points.size(); ++i) pass(i, sum, weight);
  sum = weight = 0;
  for (size_t i = points.size(); i-- > 0;) pass(i, sum, weight);
  for (size_t i = 0; i < points.size(); ++i) points[i].value = (points[i].value + sums[i]) / (1 + weights[i]);
  return points;
}

}  // namespace

LossCurves loss_curves(const std::vector<LogEntry>& history, std::string title) {
  LossCurves curves;
  curves.title = std::move(title);
  const auto add = [](std::vector<PlotPoint>& points, const LogEntry& entry, const char* name) {
    const auto value = entry.find(name);
    if (value && std::isfinite(*value)) points.push_back({static_cast<double>(entry.step), *value});
  };
  for (const LogEntry& entry : history) {
    add(curves.train, entry, "loss");
    add(curves.eval, entry, "eval_loss");
  }
  return curves;
}

std::string loss_svg(const LossCurves& curves) {
  Picture picture(curves);
  picture.axes();
  picture.title(curves.title);
  picture.curve(curves.train, raw_style);
  picture.curve(smoothed(curves.train), smooth_style);
  if (curves.eval.size() > 1) picture.curve(curves.eval, eval_line_style);
  picture.dots(curves.eval, eval_style);
  picture.legend(curves);
  return picture.finished();
}

void write_loss_plot(const std::filesystem::path& path, const LossCurves& curves) {
  write_file_atomically(path, loss_svg(curves));
}

}  // namespace duoka::train
