// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <ctime>
#include <random>
#include <system_error>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "core/descriptor.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"

namespace duoka {

namespace {

namespace fs = std::filesystem;
using detail::Descriptor;
using detail::throw_system_error;

/// Holds SIGXFSZ back from this thread while it lives. The kernel sends that signal to the very thread whose
/// write went over the limit, so other threads, and the process's handlers, need not be touched.
class FileSizeSignalBlock {
 public:
  FileSizeSignalBlock() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
  FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;

  /// Takes the signal away that a failed write left pending.
  void discard() const {
    const timespec at_once{};
    sigtimedwait(&signal_, nullptr, &at_once);
  }

 private:
  sigset_t signal_{};
  sigset_t before_{};
};

void write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
  const FileSizeSignalBlock block;
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      const int code = errno;
      if (code == EFBIG) block.discard();
      throw_system_error("write", path, code);
    }
  }
}

void flush(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw_system_error("open", path);
  // Some network file systems cannot flush a folder; they say EINVAL.
  if (::fsync(file.get()) != 0 && errno != EINVAL) throw_system_error("flush", path);
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// "out/" and "out" are the same folder; a name is needed to make a sibling's.
fs::path without_trailing_slash(fs::path path) {
  if (path.has_filename()) return path;
  return path.parent_path();
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  // Random, so that two processes making the same file do not write into one another's.
  temporary_ =
      folder_of(path_) / text(".", path_.filename().string(), ".", std::random_device{}(), ".partial");
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_system_error("create", path_);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (fd_ < 0) throw StateError(text("write after commit: ", path_.string()));
  write_all(fd_, bytes, path_);
}

void AtomicFile::write(std::string_view text) { write(bytes_of(text)); }

void AtomicFile::commit() {
  if (fd_ < 0) throw StateError(text("committed twice: ", path_.string()));
  // The order matters: were the name to reach the disk before the bytes, a crash would leave an empty file.
  if (::fsync(fd_) != 0) throw_system_error("flush", path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_system_error("rename to", path_);
  ::close(std::exchange(fd_, -1));
  flush(folder_of(path_));
}

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, bytes_of(text));
}

AtomicDirectory::AtomicDirectory(fs::path final_path)
    : final_path_(without_trailing_slash(std::move(final_path))),
      temporary_(folder_of(final_path_) / text(".", final_path_.filename().string(), ".partial")) {
  std::error_code code;
  if (fs::exists(fs::symlink_status(final_path_, code)))
    throw SystemError(
        text("cannot create ", final_path_.string(), ": it exists already; remove it or choose another"));
  fs::remove_all(temporary_, code);
  if (code) throw_system_error("remove", temporary_, code.value());
  if (!fs::create_directory(temporary_, code)) throw_system_error("create", final_path_, code.value());
}

AtomicDirectory::~AtomicDirectory() {
  std::error_code ignored;
  if (!is_committed_) fs::remove_all(temporary_, ignored);
}

void AtomicDirectory::commit() {
  if (is_committed_) throw StateError(text("committed twice: ", final_path_.string()));
  for (const auto& entry : fs::recursive_directory_iterator(temporary_))
    if (entry.is_regular_file() || entry.is_directory()) flush(entry.path());
  flush(temporary_);
  if (::rename(temporary_.c_str(), final_path_.c_str()) != 0) throw_system_error("rename to", final_path_);
  is_committed_ = true;
  flush(folder_of(final_path_));
}

namespace {

/// For a file system that cannot exchange two names.
void replace_in_two_steps(const fs::path& replacement, const fs::path& folder, const fs::path& old) {
  std::error_code ignored;
  fs::remove_all(old, ignored);
  if (::rename(folder.c_str(), old.c_str()) != 0) throw_system_error("replace", folder);
  if (::rename(replacement.c_str(), folder.c_str()) == 0) return;
  const int code = errno;
  ::rename(old.c_str(), folder.c_str());
  throw_system_error("replace", folder, code);
}

}  // namespace

void replace_folder(const fs::path& replacement, const fs::path& folder) {
  fs::path old = replacement;
  if (::renameat2(AT_FDCWD, replacement.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) throw_system_error("replace", folder);
    old = folder_of(folder) / text(".", folder.filename().string(), ".replaced");
    replace_in_two_steps(replacement, folder, old);
  }
  flush(folder_of(folder));
  std::error_code ignored;  // what is left only takes space
  fs::remove_all(old, ignored);
}

}  // namespace duoka
