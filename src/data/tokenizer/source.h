// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "duoka/io/gguf.h"
#include "duoka/io/json.h"

namespace duoka::data {

/// A tokenizer's files, read but not understood yet: what every way of loading one comes to.
struct TokenizerSource {
  std::string origin;  ///< The main file's name for messages.
  std::string text;    ///< tokenizer.json, byte for byte.
  io::Json json;       ///< The same, parsed.
  io::Json config;     ///< tokenizer_config.json, an object; roles that only special_tokens_map.json
                       ///< names are filled in.
  std::optional<std::string> chat_template;
};

TokenizerSource read_folder_source(const std::filesystem::path& folder);
TokenizerSource read_json_source(const std::filesystem::path& path);
/// Translates GGUF metadata into the tokenizer.json and tokenizer_config.json that say the same.
TokenizerSource read_gguf_source(const io::GgufFile& file);

/// The pre-tokenizer (with normalizer) that a tokenizer.ggml.pre name stands for.
struct GgufPre {
  io::Json normalizer;
  io::Json pre_tokenizer;
  bool ignores_merges = false;
  bool adds_bos = false;  ///< Where the file does not say.
};
/// Throws FormatError naming `pre` and those that are known.
GgufPre gguf_pre(std::string_view pre, const std::string& origin);

}  // namespace duoka::data
