// SPDX-License-Identifier: Apache-2.0
#include "duoka/cli/read_options.h"

#include <filesystem>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/io/yaml.h"

namespace duoka::cli {

OptionWords OptionWords::parse(const std::vector<std::string>& words) {
  OptionWords parsed;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (i == 0 && equals == std::string::npos) {
      parsed.config = words[i];
    } else if (equals == std::string::npos || equals == 0) {
      throw ConfigError(text("command line: found '", words[i], "'; wanted key=value",
                             words[i].starts_with("-") ? " (options have no dashes)" : ""));
    } else {
      parsed.overrides.push_back(words[i]);
    }
  }
  return parsed;
}

namespace detail {

namespace {

using Kind = io::YamlValue::Kind;

/// "a, b" -> {"a", "b"}: LLaMA-Factory writes lists as one text.
std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> items;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    if (!item.empty()) items.emplace_back(item);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return items;
}

/// Where a key stands: a line of a file, or the command line.
struct Place {
  std::string file;  ///< "" for the command line.
  int line = 0;
  std::string words() const { return file.empty() ? "command line" : text(file, ":", line); }
};

void set(const std::string& key, const io::YamlValue& value, const Place& place, const OptionSink& sink) {
  if (value.kind == Kind::map) {
    for (const auto& entry : value.entries)
      set(text(key, ".", entry.key), entry.value, {place.file, entry.line}, sink);
    return;
  }
  OptionValue option;
  option.is_null = value.kind == Kind::null;
  option.is_list = value.kind == Kind::list;
  for (const auto& item : value.items) {
    if (item.kind != Kind::scalar)
      throw ConfigError(
          text(place.words(), ": ", key, ": found a nested value in a list; wanted text or a number"));
    option.items.push_back(item.text);
  }
  if (value.kind == Kind::scalar) {
    option.is_list = sink.type(key) == "list";
    option.items = option.is_list ? split_list(value.text) : std::vector<std::string>{value.text};
  }
  sink.set(key, option, {place.words()});
}

}  // namespace

void read_options(const OptionWords& words, const OptionSink& sink) {
  if (words.config) {
    if (!std::filesystem::exists(*words.config))
      throw ConfigError(text("there is no config file '", words.config->string(), "'",
                             looked_in(*words.config), "; options are key=value"));
    const io::YamlDocument document = io::parse_yaml_file(*words.config);
    for (const auto& entry : document.entries)
      set(entry.key, entry.value, {document.origin, entry.line}, sink);
  }
  for (const std::string& word : words.overrides) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    // The shell has had its say on quotes; a colon or a '#' of a prompt or a path is its own.
    io::YamlValue parsed;
    if (sink.type(key) == "text" || (sink.type(key) == "list" && !value.starts_with('['))) {
      parsed.kind = Kind::scalar;
      parsed.text = value;
    } else {
      parsed = io::parse_yaml_value(value, "command line: " + word);
    }
    set(key, parsed, Place{}, sink);
  }
}

}  // namespace detail

}  // namespace duoka::cli
