// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace duoka::train {

/// While one lives, SIGINT, SIGTERM and SIGHUP are remembered instead of ending the process; a second one of
/// each ends it as usual. One that was ignored stays ignored. Earlier handlers come back with the destructor.
/// One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal that came, or 0.
  int received() const;
};

}  // namespace duoka::train
