// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "duoka/core/error.h"

namespace duoka::detail {

/// Throws SystemError "cannot <do> <path>: <reason of errno>", with what to do about the commonest ones.
[[noreturn]] void throw_system_error(std::string_view what, const std::filesystem::path& path,
                                     int code = errno);

/// An open file descriptor, closed when it goes. A failure of that close is not seen; where one matters,
/// fsync() has been asked before.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

/// A file without a name in `folder`, to read and write: it goes with the descriptor, however the process
/// ends. Not open when that fails; errno tells why.
Descriptor open_nameless(const std::filesystem::path& folder);

}  // namespace duoka::detail
