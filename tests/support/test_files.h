// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace duoka::testing {

/// A file or folder below tests/fixtures.
inline std::filesystem::path fixture(const std::filesystem::path& name) {
  const char* root = std::getenv("DUOKA_FIXTURES");
  return std::filesystem::path(root == nullptr ? "tests/fixtures" : root) / name;
}

/// A large file that is downloaded, not kept in the tree; may be absent.
inline std::filesystem::path asset(const std::filesystem::path& name) {
  const char* root = std::getenv("DUOKA_ASSETS");
  return std::filesystem::path(root == nullptr ? ".assets" : root) / name;
}

/// An empty folder of the test's own, removed with all in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "duoka-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::filesystem::filesystem_error("cannot make a folder for the test", name,
                                              std::error_code(errno, std::generic_category()));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Makes or replaces a file, without waiting for the disk.
inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Names in `folder` that begin with `start`.
inline std::set<std::string> names_in(const std::filesystem::path& folder, std::string_view start = "") {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string(); name.starts_with(start))
      names.insert(name);
  return names;
}

/// The lines of a text file, without their ends.
inline std::vector<std::string> read_lines(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The message of the `Error` that `body` throws; a test failure, and "", when it throws none.
template <class Error, class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace duoka::testing
