// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "duoka/core/text.h"

namespace duoka {

namespace option_parse {

namespace {
std::string lower(std::string_view s) {
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

/// from_chars does not know a leading plus.
std::string_view without_plus(std::string_view s) {
  if (s.size() > 1 && s[0] == '+' && s[1] != '-') s.remove_prefix(1);
  return s;
}
}  // namespace

bool boolean(std::string_view found) {
  const std::string word = lower(found);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  throw ConfigError(text("found '", found, "'; wanted true or false"));
}

int64_t integer(std::string_view found) {
  const std::string_view digits = without_plus(found);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range)
    throw ConfigError(text("found '", found, "'; wanted a whole number of at most 18 digits"));
  if (error != std::errc() || end != digits.data() + digits.size())
    throw ConfigError(text("found '", found, "'; wanted a whole number"));
  return value;
}

double number(std::string_view found) {
  const std::string_view digits = without_plus(found);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value))
    throw ConfigError(text("found '", found, "'; wanted a number"));
  return value;
}

}  // namespace option_parse

namespace detail {

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

namespace {

std::string type_text(const OptionText& option) {
  if (!option.choices.empty()) return join(option.choices, "|");
  return option.range.empty() ? option.type : option.type + " " + option.range;
}

std::string json_quoted(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string json_type(const OptionText& option) {
  if (option.type == "bool") return "\"boolean\"";
  if (option.type == "int") return "\"integer\"";
  if (option.type == "number") return "\"number\"";
  if (option.type == "list") return R"(["string", "array"])";
  return "\"string\"";
}

bool default_is_plain(const OptionText& option) {
  return option.type == "bool" || option.type == "int" || option.type == "number";
}

std::string schema_property(const OptionText& option) {
  std::string type = json_type(option);
  if (option.is_nullable) type = "[" + type + ", \"null\"]";
  std::string out = text("    ", json_quoted(option.name), ": {\"type\": ", type);
  if (option.type == "list") out += R"(, "items": {"type": "string"})";
  if (!option.choices.empty()) {
    std::vector<std::string> quoted;
    for (const auto& choice : option.choices) quoted.push_back(json_quoted(choice));
    out += ", \"enum\": [" + join(quoted) + (option.is_nullable ? ", null" : "") + "]";
  }
  if (option.range.starts_with(">= "))
    out += ", \"minimum\": " + option.range.substr(3);
  else if (option.range.starts_with("> "))
    out += ", \"exclusiveMinimum\": " + option.range.substr(2);
  else if (!option.range.empty())
    out += R"(, "minimum": 0, "exclusiveMaximum": 1)";
  if (option.default_value == "null")
    out += ", \"default\": null";
  else if (default_is_plain(option))
    out += ", \"default\": " + option.default_value;
  else if (!option.is_required)
    out += ", \"default\": " + json_quoted(option.default_value);
  return out + ", \"description\": " + json_quoted(option.help) + "}";
}

}  // namespace

std::string advice_for_unknown(std::string_view name, const std::vector<std::string>& names) {
  const auto leaf = [](std::string_view key) { return key.substr(key.rfind('.') + 1); };  // npos + 1 is 0
  std::vector<std::string> inside;
  for (const std::string& known : names) {
    if (known.starts_with(std::string(name) + ".")) inside.push_back(known);
    if (leaf(known) == leaf(name)) return "at its place it is '" + known + "'";
  }
  if (!inside.empty()) return text("it is a section, of ", join(inside));
  const std::string near = nearest(name, names);
  return near.empty() ? "`duoka train --help` lists the keys" : "nearest is '" + near + "'";
}

std::string options_help(const std::vector<OptionText>& options, int columns) {
  std::string out, group;
  constexpr size_t indent = 6;
  const auto width = static_cast<size_t>(std::max(columns, 40));
  for (const OptionText& option : options) {
    if (option.group != group) {
      group = option.group;
      out += (out.empty() ? "" : "\n") + group + "\n";
    }
    std::string head = text(option.name, "  <", type_text(option), ">");
    if (option.is_required)
      head += "  required";
    else if (!option.default_value.empty())
      head += "  default: " + option.default_value;
    if (indent + head.size() > width)  // a long list of choices may break
      for (size_t at = 0; (at = head.find('|', at)) != std::string::npos; at += 2) head.insert(at + 1, " ");
    out += "  " + wrapped(head, indent, width) + "\n" + std::string(indent, ' ') +
           wrapped(option.help, indent, width) + "\n";
  }
  return out;
}

std::string options_schema(const std::vector<OptionText>& options, std::string_view title) {
  std::vector<std::string> properties, required;
  for (const OptionText& option : options) {
    properties.push_back(schema_property(option));
    if (option.is_required) required.push_back(json_quoted(option.name));
  }
  return text("{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"title\": ",
              json_quoted(title),
              ",\n  \"type\": \"object\",\n  \"additionalProperties\": false,\n  \"required\": [",
              join(required), "],\n  \"properties\": {\n", join(properties, ",\n"), "\n  }\n}\n");
}

std::string options_markdown(const std::vector<OptionText>& options) {
  std::string out, group;
  for (const OptionText& option : options) {
    if (option.group != group) {
      group = option.group;
      out += text("\n## ", group, "\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
    }
    std::string type = type_text(option);
    for (size_t at = 0; (at = type.find('|', at)) != std::string::npos; at += 2) type.replace(at, 1, "\\|");
    const std::string shown = option.is_required             ? "required"
                              : option.default_value.empty() ? ""
                                                             : "`" + option.default_value + "`";
    out += text("| `", option.name, "` | ", type, " | ", shown, " | ", option.help, " |\n");
  }
  return out;
}

}  // namespace detail

}  // namespace duoka
