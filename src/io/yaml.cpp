// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/yaml.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"

namespace duoka::io {

namespace {

/// A configuration is short; aliases of aliases could make millions of values of a short text.
constexpr int max_values = 100'000;
constexpr int64_t max_file_bytes = int64_t{16} << 20;

class Converter {
 public:
  explicit Converter(const std::string& origin) : origin_(origin) {}

  YamlValue value(const YAML::Node& node) {
    if (++num_values_ > max_values)
      refuse(node.Mark(), text("more than ", max_values, " values (aliases count)"));
    YamlValue value;
    value.line = node.Mark().line + 1;
    value.column = node.Mark().column + 1;
    // Plain scalars have the tag "?", quoted ones and blocks "!".
    const std::string& tag = node.Tag();
    if (!is_known_tag(tag))
      refuse(node.Mark(), text("the tag ", tag, " is not supported; write the value without it"));
    if (node.IsMap()) {
      value.kind = YamlValue::Kind::map;
      value.entries = entries(node);
    } else if (node.IsSequence()) {
      value.kind = YamlValue::Kind::list;
      for (const YAML::Node& item : node) value.items.push_back(this->value(item));
    } else if (node.IsScalar()) {
      value.was_quoted = tag == "!" || tag == text_tag;
      value.text = node.Scalar();
      value.kind = !value.was_quoted && is_null(value.text) ? YamlValue::Kind::null : YamlValue::Kind::scalar;
    }
    if (value.kind == YamlValue::Kind::null) value.text.clear();
    return value;
  }

  std::vector<YamlEntry> entries(const YAML::Node& map) {
    std::vector<YamlEntry> all;
    std::unordered_map<std::string, int> lines;
    for (const auto& member : map) {
      const YAML::Mark mark = member.first.Mark();
      if (!member.first.IsScalar()) refuse(mark, "a key is no plain text; wanted `key: value`");
      YamlEntry entry{member.first.Scalar(), mark.line + 1, mark.column + 1, {}};
      if (entry.key == "<<") refuse(mark, "merge keys (<<) are not supported; write the values out");
      if (const auto [at, is_new] = lines.emplace(entry.key, entry.line); !is_new)
        refuse(mark,
               text("the key ", entry.key, " is given twice, first on line ", at->second, "; remove one"));
      entry.value = value(member.second);
      all.push_back(std::move(entry));
    }
    return all;
  }

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& why) const {
    throw ConfigError(text(origin_, ":", mark.line + 1, ":", mark.column + 1, ": ", printable(why)));
  }

 private:
  static constexpr std::string_view core_tags = "tag:yaml.org,2002:";
  static constexpr std::string_view text_tag = "tag:yaml.org,2002:str";

  static bool is_known_tag(std::string_view tag) {
    if (tag.empty() || tag == "?" || tag == "!") return true;
    if (!tag.starts_with(core_tags)) return false;
    const std::string_view kind = tag.substr(core_tags.size());
    return kind == "str" || kind == "int" || kind == "float" || kind == "bool" || kind == "seq" ||
           kind == "map";
  }

  static bool is_null(const std::string& plain) {
    return plain.empty() || plain == "~" || plain == "null" || plain == "Null" || plain == "NULL";
  }

  const std::string& origin_;
  int num_values_ = 0;
};

/// YAML forbids tabs as indentation, and the library's message for one does not say so. Tabs within a block
/// scalar or a value are fine, hence this is asked only when parsing has failed.
std::optional<YAML::Mark> tab_indent(std::string_view body, int up_to_line) {
  size_t begin = 0;
  for (int line = 0; line <= up_to_line && begin <= body.size(); ++line) {
    const size_t end = std::min(body.find('\n', begin), body.size());
    const std::string_view row = body.substr(begin, end - begin);
    const size_t tab = row.find('\t');
    if (tab != row.npos && row.find_first_not_of(' ') == tab) {
      YAML::Mark mark;
      mark.line = line;
      mark.column = static_cast<int>(tab);
      return mark;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

/// The library counts lines by '\n' and would keep the '\r' of quoted line ends.
std::string with_unix_line_ends(std::string_view text) {
  std::string all;
  all.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r' || (i + 1 < text.size() && text[i + 1] != '\n')) all += text[i];
  return all;
}

/// Where the last line that holds something ends.
YAML::Mark end_of(std::string_view body) {
  body = body.substr(0, body.find_last_not_of(" \n") + 1);
  YAML::Mark mark;
  mark.line = static_cast<int>(std::count(body.begin(), body.end(), '\n'));
  mark.column = static_cast<int>(body.size() - (body.rfind('\n') + 1));  // npos + 1 is 0
  return mark;
}

YAML::Node parse(std::string_view text_given, const std::string& origin) {
  if (text_given.starts_with("\xFF\xFE") || text_given.starts_with("\xFE\xFF"))
    throw ConfigError(text(origin, ": it is UTF-16; save it as UTF-8"));
  std::string body = with_unix_line_ends(without_bom(text_given));
  const YAML::Mark end = end_of(body);
  // At the end of the text the library takes a quote for closed, and what it swallowed for its text. At an
  // end-of-document mark it does not.
  body += body.empty() || body.back() == '\n' ? "...\n" : "\n...\n";
  const Converter converter(origin);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(body);
    if (documents.size() > 1) converter.refuse(documents[1].Mark(), "a second document begins; wanted one");
    return documents.empty() ? YAML::Node() : documents.front();
  } catch (const YAML::DeepRecursion& error) {
    converter.refuse(error.mark.line > end.line ? end : error.mark, "nested too deep");
  } catch (const YAML::Exception& error) {
    if (const auto tab = tab_indent(body, error.mark.line))
      converter.refuse(*tab, "a tab is used to indent; YAML wants spaces");
    const bool is_at_end = error.mark.line > end.line;
    if (is_at_end && error.msg == YAML::ErrorMsg::DOC_IN_SCALAR)
      converter.refuse(end, "a quote that was opened is never closed");
    converter.refuse(is_at_end ? end : error.mark, error.msg);
  }
}

}  // namespace

YamlDocument parse_yaml_text(std::string_view document, const std::string& origin) {
  const YAML::Node root = parse(document, origin);
  if (!root.IsDefined() || root.IsNull())
    throw ConfigError(text(origin, ":1:1: it is empty; wanted lines of `key: value`"));
  Converter converter(origin);
  if (!root.IsMap()) converter.refuse(root.Mark(), "the file is no map; wanted lines of `key: value`");
  return {origin, converter.entries(root)};
}

YamlDocument parse_yaml_file(const std::filesystem::path& path) {
  return parse_yaml_text(read_text_file(path, max_file_bytes), path.string());
}

YamlValue parse_yaml_value(std::string_view value, const std::string& origin) {
  const YAML::Node root = parse(value, origin);
  return root.IsDefined() ? Converter(origin).value(root) : YamlValue{};
}

}  // namespace duoka::io
