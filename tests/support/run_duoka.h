// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/types.h>

namespace duoka::testing {

/// How a command is started; the defaults suit most tests.
struct RunOptions {
  /// Added to the environment of the test, "NAME=value". OMP_NUM_THREADS=1 is there already.
  std::vector<std::string> environment = {};
  /// Working folder; "" is the test's own.
  std::filesystem::path folder = {};
  /// What it reads from stdin; then end of file.
  std::string input = {};
  /// Killed with its children after so long, which is a failure of the test: much longer than anything here
  /// takes on a busy machine, much shorter than what ranks wait for each other unasked (1800 s).
  std::chrono::milliseconds timeout = std::chrono::seconds(240);
  /// Largest file it may write (ulimit -f); 0: any.
  int64_t file_size_limit = 0;
  /// Above 0: stdout and stderr are one terminal so wide, captured as `out`; 0: two files.
  int terminal_columns = 0;
  /// Another program to run, see find_program(); "" is the duoka of DUOKA_BINARY.
  std::string program = {};
};

/// What a command left.
struct Outcome {
  int exit_code = -1;  ///< 128 + signal for one that was killed.
  std::string out, err;
  double cpu_seconds = 0;  ///< Processor time of it and the processes it waited for.
  int64_t peak_bytes = 0;  ///< Largest resident memory it, or a process it waited for, has had.

  /// Both texts and the exit code, for the message of a failing test.
  std::string all() const;
};

/// A command that runs beside the test. Its process group is killed when this goes.
class Running final {
 public:
  explicit Running(const std::vector<std::string>& arguments, RunOptions options = {});
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  pid_t pid() const { return pid_; }
  /// Process ids of its direct children: the ranks of a launcher, in order of their start.
  std::vector<pid_t> children() const;
  void send(int signal) const;
  /// What it has written so far.
  std::string out() const;
  std::string err() const;
  /// Waits until `words` were written to stdout or stderr; false when it ended or the time-out passed first.
  bool wait_for_text(const std::string& words);
  /// Waits for its end; a test failure when it has to be killed for taking too long.
  Outcome wait();

 private:
  bool has_ended();
  void note_end(int status, const rusage& used);
  void read_terminal();

  RunOptions options_;
  std::chrono::steady_clock::time_point start_;
  int out_fd_ = -1, err_fd_ = -1, terminal_fd_ = -1;
  std::string terminal_text_;
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
  double cpu_seconds_ = 0;
  int64_t peak_bytes_ = 0;
};

/// Runs `duoka arguments…` to its end.
Outcome run_duoka(const std::vector<std::string>& arguments, RunOptions options = {});

/// The duoka under test: DUOKA_BINARY.
std::string duoka_binary();

/// Where `program` is in PATH, or itself when it is a path; "" when it is not there.
std::string find_program(const std::string& program);

}  // namespace duoka::testing
