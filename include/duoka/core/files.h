// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace duoka {

// Every function here throws SystemError with the path and the system's reason when the system refuses.
// A file size limit (ulimit -f) is such a refusal too: SIGXFSZ is held back from the writing thread, so the
// process is not ended by it, whatever its own handling of that signal.

/// A file's bytes, mapped for reading. Pages are read when touched. The file must not be cut short while
/// mapped (the system answers with SIGBUS); replacing it by rename, as everything here does, is safe.
class MappedFile {
 public:
  /// Throws SystemError when `path` cannot be opened or is no regular file. An empty file has no bytes.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  /// Valid as long as this object, or the one it was moved into, lives. Page-aligned.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::span<const std::byte> bytes_;
  std::filesystem::path path_;
};

/// All of a small file. Throws SystemError when it is larger than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, int64_t max_bytes = int64_t{1} << 30);

/// `text` without the byte order mark (EF BB BF) that Windows editors put in front.
std::string_view without_bom(std::string_view text);

/// A file that appears under its name complete or not at all. Bytes go to a hidden file in the same folder;
/// commit() flushes it to disk and renames it over `path`. Not thread-safe.
class AtomicFile {
 public:
  /// Throws SystemError when the folder does not exist or is not writable.
  explicit AtomicFile(std::filesystem::path path);
  /// Removes what was not committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Unbuffered: give it pieces of 64 KiB or more where speed matters.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Waits for the disk. Call once, last; after it write() is a StateError.
  void commit();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

/// write + commit of an AtomicFile: `path` holds the old bytes or all of the new ones, never a part.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// A folder that appears under its name complete or not at all. Files are put into path(), a hidden
/// sibling of the final one; commit() flushes every file in it and renames it.
class AtomicDirectory {
 public:
  /// Throws SystemError when `final_path` exists already or its parent is not writable. What an earlier run
  /// that was killed left of the same folder is removed first.
  explicit AtomicDirectory(std::filesystem::path final_path);
  /// Removes what was not committed.
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  /// Where to write; gone after commit().
  const std::filesystem::path& path() const { return temporary_; }
  const std::filesystem::path& final_path() const { return final_path_; }
  /// Waits for the disk. Call once, last.
  void commit();

 private:
  std::filesystem::path final_path_;
  std::filesystem::path temporary_;
  bool is_committed_ = false;
};

/// Puts the folder `replacement` in the place of `folder`, both in one file system, and removes what stood
/// there. At no time is there none of that name, where the file system can exchange two names (on Linux the
/// local ones can); elsewhere, between two renames, the earlier one is at .<name>.replaced. Throws
/// SystemError.
void replace_folder(const std::filesystem::path& replacement, const std::filesystem::path& folder);

/// " (in /home/me/work)", the folder where a relative `path` is looked for; "" for an absolute one. For
/// messages about what is not there.
std::string looked_in(const std::filesystem::path& path);

/// Bytes a user without privileges can still write to the file system of `path`, which (or else its nearest
/// parent) exists. A size limit of the process (ulimit -f) is not counted.
int64_t free_bytes(const std::filesystem::path& path);

/// True when a file can be made in `path`, an existing folder. Makes and removes one to know: access rights,
/// read-only mounts and quotas are all asked.
bool is_writable_dir(const std::filesystem::path& path);

}  // namespace duoka
