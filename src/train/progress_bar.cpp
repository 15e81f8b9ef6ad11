// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/progress_bar.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <vector>

#include "duoka/core/text.h"

namespace duoka::train {

namespace {

/// printf into a string; for numbers, whose length is bounded.
[[gnu::format(printf, 1, 2)]] std::string print(const char* format, ...) {
  char buffer[128];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

/// "950", "12.3k", "1.2M".
std::string short_count(double count) {
  if (count < 1000) return print("%.0f", count);
  if (count < 1e6) return print("%.1fk", count / 1e3);
  return print("%.1fM", count / 1e6);
}

/// Updates per second, or seconds per update where that is the larger number.
std::string rate_text(double seconds_per_step) {
  if (seconds_per_step <= 0) return "?it/s";
  return seconds_per_step > 1 ? print("%.2fs/it", seconds_per_step) : print("%.2fit/s", 1 / seconds_per_step);
}

/// "[####....]" of `width` characters in all.
std::string bar(const StepReport& report, size_t width) {
  const double share =
      report.total_steps > 0 ? static_cast<double>(report.step) / static_cast<double>(report.total_steps) : 0;
  const size_t inside = width - 2;
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(inside));
  return "[" + std::string(full, '#') + std::string(inside - full, '.') + "]";
}

}  // namespace

std::string bar_text(const StepReport& report, int columns) {
  constexpr size_t smallest_bar = 6;
  constexpr size_t largest_bar = 32;
  // The last column stays free: some terminals wrap when it is written.
  const auto room = static_cast<size_t>(std::max(columns - 1, 0));

  std::string line =
      print("%lld/%lld", static_cast<long long>(report.step), static_cast<long long>(report.total_steps));
  const std::vector<std::string> fields{
      print("loss %.4g", report.loss),        "left " + duration_text(report.remaining_seconds()),
      rate_text(report.seconds_per_step),     short_count(report.tokens_per_second) + " tok/s",
      print("lr %.2g", report.learning_rate),
  };  // most needed first
  // Loss and time left matter more than a bar, the others less.
  constexpr size_t num_before_bar = 2;
  std::string tail;
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t for_bar = i < num_before_bar ? 0 : smallest_bar + 1;
    if (line.size() + tail.size() + 1 + fields[i].size() + for_bar > room) break;
    tail += " " + fields[i];
  }
  const size_t used = line.size() + tail.size() + 1;
  if (used + smallest_bar <= room) line += " " + bar(report, std::min(room - used, largest_bar));
  line += tail;
  return line.substr(0, room);
}

std::string line_text(const StepReport& report) {
  return print("step=%lld total=%lld epoch=%.3f ", static_cast<long long>(report.step),
               static_cast<long long>(report.total_steps), report.epoch) +
         print("loss=%.6g lr=%.4g grad_norm=%.4g ", report.loss, report.learning_rate, report.grad_norm) +
         print("tokens_per_second=%.0f total_tokens=%lld ", report.tokens_per_second,
               static_cast<long long>(report.total_tokens)) +
         "elapsed=" + duration_text(report.elapsed_seconds) +
         " left=" + duration_text(report.remaining_seconds());
}

ProgressBar::~ProgressBar() { log_.status(""); }

void ProgressBar::update(const StepReport& latest, const std::optional<StepReport>& logged) {
  if (logged) log_.info(line_text(*logged));
  if (!log_.has_status()) return;
  last_ = bar_text(latest, log_.columns());
  log_.status(last_);
}

void ProgressBar::note(const std::string& what) {
  if (!log_.has_status()) return;
  const auto room = static_cast<size_t>(std::max(log_.columns() - 1, 0));  // as for the bar
  log_.status(what.empty() ? last_ : what.substr(0, room));
}

}  // namespace duoka::train
