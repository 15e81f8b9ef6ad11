// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

namespace duoka::data {

/// Holds a file's lock (flock) while it lives. The system takes the lock back when the process ends, however
/// it ends, so a dead holder blocks nobody. Excludes threads of one process from one another as well.
class FileLock {
 public:
  /// Makes the file when missing, and waits as long as another holds it; `on_wait` is called once, after
  /// `patience` of waiting. Throws SystemError.
  FileLock(const std::filesystem::path& path, const std::function<void()>& on_wait,
           std::chrono::milliseconds patience = std::chrono::seconds(1));
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

}  // namespace duoka::data
