// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/log.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "duoka/core/text.h"

namespace duoka {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::string_view erase_line = "\r\x1b[K";

bool terminal_moves_cursor() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

/// One write a message, so that lines of several processes do not mix.
void put(const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(STDERR_FILENO, bytes.data() + done, bytes.size() - done);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n < 0 && errno == EAGAIN) {
      // A pipe whose reader made it non-blocking is full: wait as on any other.
      pollfd room{STDERR_FILENO, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (n == 0 || errno != EINTR) {
      return;  // nowhere left to say it
    }
  }
}

/// The status line now at the bottom of this process's terminal. It mirrors a device that the process has
/// once, whatever number of Log values write to it.
std::string& shown_status() {
  static std::string line;
  return line;
}

void put_line(std::string message, bool has_status) {
  message += '\n';
  if (has_status && !shown_status().empty()) message = std::string(erase_line) + message + shown_status();
  put(message);
}

}  // namespace

Log::Log(int rank, int num_ranks)
    : rank_(rank), num_ranks_(num_ranks), has_status_(rank == 0 && terminal_moves_cursor()) {}

void Log::info(std::string_view message) const {
  if (rank_ == 0) put_line(std::string(message), has_status_);
}

void Log::warning(std::string_view message) const {
  const std::string from = rank_ == 0 ? "" : text("[rank ", rank_, " of ", num_ranks_, "] ");
  put_line(text(from, "warning: ", message), has_status_);
}

void Log::status(std::string_view line) const {
  if (!has_status_) return;
  shown_status() = line;
  put(text(erase_line, line));
}

int Log::columns() const {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

Progress::Progress(const Log& log, std::string what, int64_t total, std::string unit,
                   std::chrono::milliseconds quiet)
    : log_(log),
      what_(printable(what)),
      unit_(std::move(unit)),
      total_(total),
      start_(Clock::now()),
      next_(start_ + quiet) {}

Progress::~Progress() {
  if (!was_shown_) return;
  log_.status("");
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  log_.info(text(what_, ": ", amount(done_), " in ", duration_text(seconds)));
}

void Progress::advance(int64_t count) {
  done_ += count;
  const auto now = Clock::now();
  if (now < next_) return;
  was_shown_ = true;
  if (log_.has_status()) {
    log_.status(line(true));
    next_ = now + std::chrono::milliseconds(100);
  } else {
    log_.info(line(false));
    next_ = now + std::chrono::seconds(10);
  }
}

std::string Progress::amount(int64_t count) const {
  return unit_ == "byte" ? bytes_text(count) : counted(count, unit_);
}

std::string Progress::line(bool with_bar) const {
  const double share =
      total_ > 0 ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)) : 0;
  std::string out = text(what_, ": ", static_cast<int>(share * 100), "% ");
  // The unit once: "236 of 272 tensors".
  const std::string tail =
      text(unit_ == "byte" ? bytes_text(done_) : count_text(done_), " of ", amount(total_));
  const int room = log_.columns() - static_cast<int>(out.size() + tail.size()) - 4;
  if (with_bar && room >= 10) {
    const auto full = static_cast<size_t>(share * std::min(room, 40));
    out += "[" + std::string(full, '#') + std::string(static_cast<size_t>(std::min(room, 40)) - full, '.') +
           "] ";
  }
  // A line that wraps cannot be taken back from a terminal: one column for "…", one for the cursor.
  return with_bar ? printable(out + tail, static_cast<size_t>(std::max(0, log_.columns() - 2))) : out + tail;
}

}  // namespace duoka
