// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "comm/report.h"

namespace duoka::comm {

/// What a child process is to be. Descriptors stay the caller's.
struct ChildSetup {
  std::function<int()> body;             ///< What it does, as a copy of this process; empty: runs `program`.
  std::string program;                   ///< "": none.
  std::vector<std::string> arguments;    ///< Without argv[0].
  std::vector<std::string> environment;  ///< All of it, "NAME=value".
  std::vector<int> cores;                ///< To be pinned to; empty: where the launcher may run.
  bool has_stdout = true;                ///< False: its stdout goes nowhere.
  int inherited_fd = -1;                 ///< Stays open in the child under the same number; -1: none.
  int closed_fd = -1;                    ///< Closed in the child; -1: none.
  sigset_t signal_mask;                  ///< Signals blocked in the child.
};

/// A rank that was started: its process, and the pipe its report comes through. Whatever way the launcher
/// ends, the kernel kills the process with it.
class Child final {
 public:
  /// Starts it, in a process group of its own so that a terminal's Ctrl-C reaches it only once, through the
  /// launcher. Throws SystemError.
  Child(int rank, ChildSetup setup);
  /// Kills what still runs, and waits for that.
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  bool is_running() const { return !status_.has_value(); }
  /// Looks whether it has ended, without waiting. True when it has just been found to.
  bool has_just_ended();
  void send(int signal) const;

  /// Of one that has ended: 0, its exit code, or 128 + the signal that killed it.
  int exit_code() const;
  /// The signal that killed it; 0 when it ended by itself.
  int fatal_signal() const;
  const std::optional<Report>& report() const { return report_; }
  /// When it failed, as it says itself, else when it was found to have ended.
  int64_t failure_nanoseconds() const;

 private:
  void read_report();

  int rank_;
  pid_t pid_ = -1;
  int report_fd_ = -1;
  std::optional<int> status_;
  std::optional<Report> report_;
  int64_t ended_nanoseconds_ = 0;
};

}  // namespace duoka::comm
