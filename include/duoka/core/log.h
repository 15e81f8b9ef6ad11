// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace duoka {

/// Where a rank's words go: stderr, one line a message. A small value; pass it, there is no global one.
///
/// Only rank 0 speaks; warnings of other ranks are printed with their rank in front. On a terminal a
/// status line (a progress bar) may stand at the bottom and is redrawn below messages; in a file or pipe,
/// and with TERM=dumb or NO_COLOR for colours, there are plain lines only: no carriage return, no escape.
/// Standard output is left to results (generated text, tables asked for).
class Log {
 public:
  /// `rank` of `num_ranks`; 0 of 1 when there is but one.
  explicit Log(int rank = 0, int num_ranks = 1);

  void info(std::string_view message) const;
  void warning(std::string_view message) const;
  /// Shows or replaces the status line; does nothing off a terminal. "" takes it away.
  void status(std::string_view line) const;

  int rank() const { return rank_; }
  /// True when status() shows something: rank 0 on a terminal that can move its cursor.
  bool has_status() const { return has_status_; }
  /// Columns of the terminal; 80 when unknown.
  int columns() const;

 private:
  int rank_;
  int num_ranks_;
  bool has_status_;
};

/// Progress of work whose size is known: silent at first, then a bar on a terminal and a plain line every
/// ten seconds elsewhere; a final line if anything was shown. Call advance() from one thread.
class Progress {
 public:
  /// `unit`: one of what is counted, "row"; "byte" is printed with binary units. `quiet`: how long it is
  /// silent.
  Progress(const Log& log, std::string what, int64_t total, std::string unit,
           std::chrono::milliseconds quiet = std::chrono::seconds(1));
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(int64_t count);

 private:
  std::string line(bool with_bar) const;
  std::string amount(int64_t count) const;

  Log log_;
  std::string what_;
  std::string unit_;
  int64_t total_;
  int64_t done_ = 0;
  bool was_shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace duoka
