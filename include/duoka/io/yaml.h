// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace duoka::io {

struct YamlEntry;

/// A value of a YAML document. Scalars are text: whether 010, yes or 1e-4 is a number is decided by whoever
/// knows the wanted type, so that no YAML dialect decides it first.
struct YamlValue {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;          ///< null: nothing, ~ or null, unquoted.
  std::string text;                ///< Of a scalar.
  bool was_quoted = false;         ///< "…" or '…' or a block: text on purpose.
  std::vector<YamlValue> items;    ///< Of a list.
  std::vector<YamlEntry> entries;  ///< Of a map, in the order of the text, keys unique.
  int line = 0;                    ///< Where it begins; from 1.
  int column = 0;
};

struct YamlEntry {
  std::string key;
  int line = 0;  ///< Of the key; from 1.
  int column = 0;
  YamlValue value;
};

/// The top level of a document.
struct YamlDocument {
  std::string origin;  ///< The file's name, for messages.
  std::vector<YamlEntry> entries;
};

/// Parses one document whose top level is a map. A byte order mark and CRLF are accepted. Anchors and aliases
/// work. Throws ConfigError "origin:line:column: why" for malformed text (with tabs named as such), an empty
/// document, a top level that is no map, more than one document, keys given twice, merge keys (<<), keys that
/// are no scalars, more than 100,000 values after aliases; SystemError when a file cannot be read.
YamlDocument parse_yaml_file(const std::filesystem::path& path);
YamlDocument parse_yaml_text(std::string_view text, const std::string& origin);
/// One value, as on a command line: "[q_proj, v_proj]", "1e-4", "". `origin`: "argument lora_target=…".
YamlValue parse_yaml_value(std::string_view text, const std::string& origin);

}  // namespace duoka::io
