// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "duoka/comm/traffic.h"

namespace duoka::comm {

/// Told of transfers when somebody has waited for them: what a picture of a run is made of.
class TransferWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// A transfer over `axis` was begun at `start` and waited for from `wait` until now. It may have ended
  /// before.
  virtual void on_waited(Operation operation, const std::string& axis, TimePoint start,
                         TimePoint wait) noexcept = 0;

  /// Who is told of the transfers that this thread waits for; null, as at first: nobody. Outlives them.
  static void set_current(TransferWatch* watch);
  static TransferWatch* current();

 protected:
  ~TransferWatch() = default;
};

}  // namespace duoka::comm
