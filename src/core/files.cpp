// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/files.h"

#include <array>
#include <cstdlib>
#include <limits>
#include <random>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "core/descriptor.h"
#include "duoka/core/text.h"

namespace duoka {

namespace detail {

void throw_system_error(std::string_view what, const std::filesystem::path& path, int code) {
  std::string hint;
  if (code == EFBIG) hint = "; the process has a file size limit (ulimit -f)";
  if (code == ENOSPC) hint = "; free some space or choose another folder";
  if (code == ENOENT) hint = looked_in(path);
  if (code == EDQUOT) hint = "; your quota on this file system is used up";
  throw SystemError(
      text("cannot ", what, " ", path.string(), ": ", std::generic_category().message(code), hint));
}

Descriptor open_nameless(const std::filesystem::path& folder) {
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() >= 0) return file;
  // Where the file system knows no files without a name, it has one for a moment.
  std::string name = (folder / ".duoka-XXXXXX").string();
  Descriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (named.get() >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace detail

std::string looked_in(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  return path.is_absolute() || error ? "" : text(" (in ", here.string(), ")");
}

namespace {

using detail::Descriptor;
using detail::throw_system_error;

/// Not blocking, so that opening a named pipe that nobody writes to returns.
Descriptor open_to_read(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw_system_error("open", path);
  return file;
}

struct stat status_of(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_system_error("look at", path);
  return status;
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const Descriptor file = open_to_read(path);
  const struct stat status = status_of(file, path);
  if (!S_ISREG(status.st_mode))
    throw SystemError(duoka::text("cannot read ", path.string(), ": it is ",
                                  S_ISDIR(status.st_mode) ? "a folder" : "not a regular file",
                                  "; wanted a file"));
  MappedFile mapped;
  mapped.path_ = path;
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return mapped;  // mmap refuses a length of 0
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) throw_system_error("map", path);
  mapped.bytes_ = {static_cast<const std::byte*>(address), size};
  return mapped;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(path_, other.path_);
  return *this;
}

std::string_view MappedFile::text() const {
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

std::string read_text_file(const std::filesystem::path& path, int64_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw_system_error("open", path);
  // Read to the end instead of trusting a size: pipes and /proc files have none.
  std::string all;
  std::array<char, size_t{1} << 16> piece;
  for (;;) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_system_error("read", path);
    if (n == 0) return all;
    all.append(piece.data(), static_cast<size_t>(n));
    if (static_cast<int64_t>(all.size()) > max_bytes)
      throw SystemError(text("cannot read ", path.string(), ": it is larger than the ", bytes_text(max_bytes),
                             " such a file may have"));
  }
}

std::string_view without_bom(std::string_view text) {
  constexpr std::string_view bom = "\xEF\xBB\xBF";
  return text.starts_with(bom) ? text.substr(bom.size()) : text;
}

int64_t free_bytes(const std::filesystem::path& path) {
  std::filesystem::path there = std::filesystem::absolute(path);
  std::error_code ignored;
  while (!std::filesystem::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  struct statvfs status {};
  if (::statvfs(there.c_str(), &status) != 0) throw_system_error("ask the free space of", there);
  const auto blocks = static_cast<uint64_t>(status.f_bavail), size = static_cast<uint64_t>(status.f_frsize);
  constexpr auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(size != 0 && blocks > most / size ? most : blocks * size);
}

bool is_writable_dir(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return false;
  const std::filesystem::path probe = path / text(".duoka-probe-", std::random_device{}());
  const Descriptor file(::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) return false;
  ::unlink(probe.c_str());
  return true;
}

}  // namespace duoka
