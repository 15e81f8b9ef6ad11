// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

namespace duoka::testing {

/// Processor time of this process so far, all threads together. For tests that something is not slow: what
/// else the machine does hardly counts.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace duoka::testing
