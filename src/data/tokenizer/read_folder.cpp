// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <nlohmann/json.hpp>

#include "data/tokenizer/source.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/data/tokenizer.h"

namespace duoka::data {
namespace {

constexpr const char *tokenizer_name = "tokenizer.json", *config_name = "tokenizer_config.json",
                     *map_name = "special_tokens_map.json", *template_name = "chat_template.jinja";
constexpr std::array roles = {"bos_token", "eos_token", "pad_token", "unk_token"};

/// An absent file is an empty object.
io::Json read_optional_object(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return io::Json::object();
  io::Json json = io::read_json_file(path);
  if (!json.is_object()) throw FormatError(text(path.string(), ": wanted a JSON object"));
  return json;
}

/// A template, or a list of named ones of which "default" is meant.
std::optional<std::string> configured_template(const io::Json& config, const std::string& origin) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) {
    throw FormatError(
        text(origin, ": chat_template is ", found->type_name(), "; wanted text or a list of named ones"));
  }
  for (const io::Json& named : *found) {
    if (io::require_string(named, "name", origin) == "default")
      return io::require_string(named, "template", origin);
  }
  return std::nullopt;
}

void refuse_missing(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / tokenizer_name)) return;
  const bool has_model = std::filesystem::exists(folder / "tokenizer.model");
  throw FormatError(
      text(folder.string(), ": no tokenizer.json", has_model ? ", only a tokenizer.model" : "",
           "; convert it with AutoTokenizer.from_pretrained(…).save_pretrained(…) of transformers"));
}

}  // namespace

TokenizerSource read_json_source(const std::filesystem::path& path) {
  TokenizerSource source;
  source.origin = path.string();
  source.text = read_text_file(path);
  source.json = io::parse_json(source.text, source.origin);
  source.config = io::Json::object();
  return source;
}

std::vector<std::filesystem::path> Tokenizer::files_of_folder(const std::filesystem::path& folder) {
  return {folder / tokenizer_name, folder / config_name, folder / map_name, folder / template_name};
}

TokenizerSource read_folder_source(const std::filesystem::path& folder) {
  refuse_missing(folder);
  TokenizerSource source = read_json_source(folder / tokenizer_name);
  const std::filesystem::path config_path = folder / config_name;
  source.config = read_optional_object(config_path);
  const io::Json map = read_optional_object(folder / map_name);
  for (const char* role : roles) {
    const bool is_absent = !source.config.contains(role) || source.config[role].is_null();
    if (is_absent && map.contains(role)) source.config[role] = map[role];
  }
  const std::filesystem::path template_path = folder / template_name;
  source.chat_template = std::filesystem::exists(template_path)
                             ? std::optional(read_text_file(template_path))
                             : configured_template(source.config, config_path.string());
  return source;
}

}  // namespace duoka::data
