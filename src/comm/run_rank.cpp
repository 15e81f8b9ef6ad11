// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <system_error>

#include <c10/util/Exception.h>
#include <poll.h>
#include <unistd.h>

#include "comm/report.h"
#include "duoka/comm/launcher.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

/// Name and message of an error of any origin.
struct Described {
  std::string kind;
  std::string message;
  int exit_code = 1;
};

constexpr size_t max_message_bytes = 4000;

/// A message holds what users and files gave: one line of it, that drives no terminal, is shown. Torch's own
/// are of several lines.
Described describe(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error))
    return {ours->kind(), printable(ours->what(), max_message_bytes), ours->exit_code()};
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    const SystemError refusal(text("cannot use ", file->path1().string(), ": ", file->code().message()));
    return describe(refusal);
  }
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error))
    return {"torch", torch->what_without_backtrace()};
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {"out of memory", "the system gave no more memory"};
  return {"unexpected", printable(error.what(), max_message_bytes)};
}

bool write_all(int fd, const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

/// To the launcher where there is one, else to stderr.
void tell(const std::exception& error, const std::string& block) {
  if (is_launched()) {
    if (const char* fd = std::getenv("DUOKA_REPORT_FD"); fd != nullptr) {
      const Report report{.nanoseconds = std::chrono::steady_clock::now().time_since_epoch().count(),
                          .is_echo = dynamic_cast<const CommError*>(&error) != nullptr,
                          .block = block};
      if (write_all(std::atoi(fd), to_wire(report))) return;
    }
  }
  write_all(STDERR_FILENO, block + '\n');
}

/// Sends out what stdout still holds. Throws SystemError when an answer was lost, but for a reader that has
/// seen enough (`| head -1`).
void flush_stdout() {
  errno = 0;
  if (std::cout.flush()) return;
  const int reason = errno;
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0) return;
  throw SystemError(text("cannot write to standard output", reason != 0 ? ": " : "",
                         reason != 0 ? std::generic_category().message(reason) : "",
                         "; what it should hold is lost"));
}

}  // namespace

bool is_launched() { return std::getenv("DUOKA_LAUNCHED") != nullptr; }

std::string error_block(const std::exception& error, int rank, int num_ranks, int& exit_code) {
  const Described what = describe(error);
  exit_code = what.exit_code;
  const std::string where = num_ranks > 1 ? text(" on rank ", rank, " of ", num_ranks) : "";
  return text("error: ", what.kind, where, ": ", what.message);
}

int run_rank(int rank, int num_ranks, const std::function<int()>& body) {
  int exit_code = 1;
  try {
    exit_code = body();
    flush_stdout();
  } catch (const std::exception& error) {
    tell(error, error_block(error, rank, num_ranks, exit_code));
  }
  std::cout.flush();
  return exit_code;
}

}  // namespace duoka::comm
