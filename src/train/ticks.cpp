// SPDX-License-Identifier: Apache-2.0
#include "train/ticks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace duoka::train {

std::string Ticks::label(double position) const {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", num_decimals, position);
  return buffer;
}

Ticks round_ticks(double low, double high, int max_count) {
  const double wanted = (high - low) / max_count;
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  double distance = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= wanted) distance = factor * power;
  Ticks ticks;
  ticks.num_decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(distance) - 1e-9)), 0, 12);
  // Counted, not added up, so that errors do not grow.
  for (double count = std::ceil(low / distance); count * distance <= high; ++count)
    ticks.positions.push_back(count == 0 ? 0.0 : count * distance);
  return ticks;
}

}  // namespace duoka::train
