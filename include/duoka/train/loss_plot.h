// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "duoka/train/trainer_state.h"

namespace duoka::train {

struct PlotPoint {
  double step = 0;
  double value = 0;
};

struct LossCurves {
  std::string title = "training loss";
  std::vector<PlotPoint> train;
  std::vector<PlotPoint> eval;
};

/// The "loss" and "eval_loss" entries of a history; values that are not finite are left out.
LossCurves loss_curves(const std::vector<LogEntry>& history, std::string title);

/// A picture as SVG text: axes with round ticks, training loss raw and smoothed, evaluation points. Also for
/// one point or none.
std::string loss_svg(const LossCurves& curves);

/// Writes loss_svg() whole or not at all. Throws SystemError.
void write_loss_plot(const std::filesystem::path& path, const LossCurves& curves);

}  // namespace duoka::train
