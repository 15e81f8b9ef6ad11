// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace duoka::train {

/// Size and checksum (XXH3, 64 bits) of one file.
struct FileSum {
  int64_t num_bytes = 0;
  uint64_t xxh3 = 0;
};

/// Path inside the folder, with '/', -> its sum.
using Manifest = std::map<std::string, FileSum>;

/// Reads every file below `folder` and writes folder/manifest.json, which makes a checkpoint complete.
void write_manifest(const std::filesystem::path& folder);

/// Whether write_manifest has been there.
bool has_manifest(const std::filesystem::path& folder);

/// Throws FormatError when it is missing, malformed or names a path outside of the folder.
Manifest read_manifest(const std::filesystem::path& folder);

/// Throws FormatError for the first file that is missing or has another size or, with `read_bytes`, another
/// checksum.
void verify_manifest(const std::filesystem::path& folder, const Manifest& manifest, bool read_bytes);

}  // namespace duoka::train
