// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "duoka/core/log.h"
#include "duoka/train/metrics.h"

namespace duoka::train {

/// One line of at most `columns` characters: bar, loss, rate, tokens/s, learning rate, time left. What does
/// not fit is left out, least needed first; no escape, no newline.
std::string bar_text(const StepReport& report, int columns);

/// "step=12 total=100 loss=1.2345 …": key=value pairs for files and grep.
std::string line_text(const StepReport& report);

/// Shows the run's progress: a bar at the bottom of a terminal; elsewhere one plain line per logged step.
class ProgressBar {
 public:
  explicit ProgressBar(const Log& log) : log_(log) {}
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// After each update. `is_logged`: a step the user wants a line for (logging_steps).
  void update(const StepReport& report, bool is_logged);
  /// What goes on between updates, "evaluating 3/12", in the place of the bar; "" brings the bar back. Only a
  /// terminal shows it.
  void note(const std::string& what);

 private:
  Log log_;
  std::string last_;  // what the bar shows
};

}  // namespace duoka::train
