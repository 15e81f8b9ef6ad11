// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace duoka::cli {

/// Measured all-reduce between two ranks of this machine.
struct WireCheck {
  std::string trouble;                ///< Why it failed; "" when sums came out right.
  double small_seconds = 0;           ///< 8 bytes, median.
  double large_seconds = 0;           ///< 64 MiB, median.
  double megabytes_a_second() const;  ///< 10^6 bytes of the large buffer a second.
};

inline constexpr int wire_check_ranks = 2;

/// Two threads, each a rank with real wires: Gloo over loopback, or NCCL between cards 0 and 1.
WireCheck check_wires(bool with_nccl);

}  // namespace duoka::cli
