// SPDX-License-Identifier: Apache-2.0
#include "data/file_lock.h"

#include <cerrno>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw SystemError(text("cannot ", what, " ", path.string(), ": ", std::strerror(errno),
                         "; set cache_dir to a folder where files can be made and locked"));
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, const std::function<void()>& on_wait,
                   std::chrono::milliseconds patience)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (fd_ < 0) fail(path, "open");
  const auto start = std::chrono::steady_clock::now();
  bool was_told = false;
  // Asked again and again rather than waited for in the system, so that the wait can be told.
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      const int code = errno;
      ::close(fd_);
      errno = code;
      fail(path, "lock");
    }
    if (!was_told && std::chrono::steady_clock::now() - start > patience) {
      on_wait();
      was_told = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

FileLock::~FileLock() { ::close(fd_); }

}  // namespace duoka::data
