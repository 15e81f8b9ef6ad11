// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace duoka::data {

/// What tells files from any others and from themselves before or after a change.
struct FileState {
  /// Device, inode, size and the time of the last change (ctime, which nobody can set) of each; one line.
  std::string text;
  /// A change to come will have another time: the last one was long enough ago for the file system's clock.
  bool is_settled = true;
};

/// The state of `paths` now; one that is not there has a state too. One call of the system for each.
FileState state_of_files(std::span<const std::filesystem::path> paths);

/// Remembers which cache file belongs to a data file and the tokenizer's files as they are, so that none of
/// them is read to find out: two lines of states and a name, in a file of the cache's folder.
class CacheStamp final {
 public:
  /// `inputs`: the files that the tokens are made from. `parts`: what else they depend on.
  CacheStamp(std::filesystem::path folder, std::vector<std::filesystem::path> inputs,
             std::span<const std::string_view> parts);

  FileState state_of_inputs() const { return state_of_files(inputs_); }
  /// The cache file, when it is as it was, and so are the inputs, whose state is `inputs` now.
  std::optional<std::filesystem::path> find(const FileState& inputs) const;
  /// The cache file has been checked whole. `inputs`: their state before they were read. Does nothing where
  /// a file had changed a moment ago, or the stamp cannot be written: it only saves time.
  void write(const FileState& inputs, const std::filesystem::path& cache_file) const;

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> inputs_;
  std::filesystem::path path_;
};

}  // namespace duoka::data
