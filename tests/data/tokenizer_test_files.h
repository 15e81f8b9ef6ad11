// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "duoka/data/tokenizer.h"
#include "support/test_files.h"

namespace duoka::data::testing {

using duoka::testing::TemporaryFolder;

inline std::filesystem::path fixtures() { return duoka::testing::fixture(""); }
inline std::filesystem::path assets() { return duoka::testing::asset(""); }
inline std::filesystem::path model_folder(const std::string& name) {
  return fixtures() / "cases" / "models" / name;
}

inline Tokenizer tiny_llama() { return Tokenizer::from_folder(model_folder("tiny-llama")); }
inline Tokenizer byte_fallback() {
  return Tokenizer::from_json_file(model_folder("tok-bytefallback") / "tokenizer.json");
}

}  // namespace duoka::data::testing
