// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace duoka::parallel {

/// How many ranks each kind of parallelism uses. 0 for `data` means: all that the others leave.
struct Plan {
  int data = 0;
};

/// `plan` with every degree known, checked against `num_ranks` before a card is touched.
/// Throws ConfigError that names the numbers and what would fit.
Plan resolve(const Plan& plan, int num_ranks);

/// "data 2" for the start-up lines; "one rank" when there is nothing parallel. `plan` is resolved.
std::string describe(const Plan& plan);

}  // namespace duoka::parallel
