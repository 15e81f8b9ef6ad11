// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace duoka::cli {

/// Size and contents of a file in a few words, the same wherever it lies: a hash of all of it up to 1 MiB, of
/// its start (which is where formats keep what they hold) and 64 samples of 4 KiB beyond. "" when it cannot
/// be read.
std::string identity_of(const std::filesystem::path& file);

/// That of the files that make a model or an adapter, by name: JSON, weights and a tokenizer's files of a
/// folder; of a file, itself.
std::map<std::string, std::string> identities_of(const std::filesystem::path& model);

}  // namespace duoka::cli
