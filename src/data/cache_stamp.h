// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace duoka::data {

/// What tells a file from any other and from itself before or after a change: device, inode, size and the
/// time of the last change (ctime, which nobody can set). "" when there is no such file.
std::string state_of_file(const std::filesystem::path& path);

/// True when a change to come will have another time: this one was long enough ago for the file system's
/// clock.
bool is_settled(const std::filesystem::path& path);

/// Remembers which cache file belongs to a data file as it is, so that neither is read to find out: two lines
/// of states and a name, in a file of the cache's folder.
class CacheStamp final {
 public:
  /// `parts`: what the tokens depend on, but for the bytes of the data file.
  CacheStamp(std::filesystem::path folder, std::string data_path, std::span<const std::string_view> parts);

  /// The cache file, when it and the data file are as they were.
  std::optional<std::filesystem::path> find() const;
  /// The cache file has been checked whole. `data_state`: of the data file before it was read. Does nothing
  /// where one of both has changed a moment ago, or the stamp cannot be written: it only saves time.
  void write(const std::string& data_state, const std::filesystem::path& cache_file) const;

 private:
  std::filesystem::path folder_;
  std::string data_path_;
  std::filesystem::path path_;
};

}  // namespace duoka::data
