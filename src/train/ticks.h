// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace duoka::train {

/// Round numbers along an axis.
struct Ticks {
  std::vector<double> positions;
  int num_decimals = 0;

  std::string label(double position) const;
};

/// Multiples of 1, 2 or 5 times a power of ten inside [low, high], at most `max_count` + 1 of them. low <
/// high.
Ticks round_ticks(double low, double high, int max_count);

}  // namespace duoka::train
