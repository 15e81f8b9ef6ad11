// SPDX-License-Identifier: Apache-2.0
// Parts of tokenizers, and what Hugging Face's do with them: recorded by tools/record/tokenizer_parts.py.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/data/tokenizer.h"
#include "duoka/io/json.h"
#include "support/test_files.h"

namespace duoka::data::testing {

/// All recordings of one kind: [{name, json, cases: [[input, result], …]}, …].
inline const io::Json& recorded_parts(const std::string& kind) {
  static const io::Json all = io::read_json_file(duoka::testing::fixture("golden/tokenizer_parts.json"));
  return all.at(kind);
}

/// A tokenizer.json with this model and nothing else.
inline io::Json tokenizer_json(const io::Json& model) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", io::Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", model}};
}

inline Tokenizer load_tokenizer(const io::Json& json) {
  const duoka::testing::TemporaryFolder folder;
  duoka::testing::write_file(folder / "tokenizer.json", json.dump());
  return Tokenizer::from_json_file(folder / "tokenizer.json");
}

inline std::vector<int32_t> ids_of(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, {.add_special_tokens = false}).ids;
}

}  // namespace duoka::data::testing
