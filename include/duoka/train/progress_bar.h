// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "duoka/core/log.h"
#include "duoka/train/metrics.h"

namespace duoka::train {

/// One line of at most `columns` characters: bar, loss, rate, tokens/s, learning rate, time left. What does
/// not fit is left out, least needed first; no escape, no newline.
std::string bar_text(const StepReport& report, int columns);

/// "step=12 total=100 loss=1.2345 …": key=value pairs for files and grep.
std::string line_text(const StepReport& report);

/// Shows the run's progress: a plain line per logged step, and below them, on a terminal, a bar.
class ProgressBar {
 public:
  explicit ProgressBar(const Log& log) : log_(log) {}
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// After each update. `logged`: what the user wants a line of (logging_steps), with the mean loss since the
  /// one before; the bar has the loss of `latest`.
  void update(const StepReport& latest, const std::optional<StepReport>& logged);
  /// What goes on between updates, "evaluating 3/12", in the place of the bar; "" brings the bar back. Only a
  /// terminal shows it.
  void note(const std::string& what);

 private:
  Log log_;
  std::string last_;  // what the bar shows
};

}  // namespace duoka::train
