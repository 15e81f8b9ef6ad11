// SPDX-License-Identifier: Apache-2.0
#include "data/json_row.h"

#include <vector>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {

namespace {

/// Parsing takes about 12 bytes of memory a byte of text; a row beyond this is a mistake.
constexpr size_t max_row_bytes = size_t{256} << 20;

std::string parse_error(simdjson::error_code code, std::string_view json) {
  switch (code) {
    case simdjson::UNCLOSED_STRING:
      return "not JSON: ends inside a string; is the row torn?";
    case simdjson::DEPTH_ERROR:
      return text("JSON nested deeper than ", simdjson::DEFAULT_MAX_DEPTH, " levels");
    case simdjson::UTF8_ERROR:
      return "not valid UTF-8";
    case simdjson::STRING_ERROR:
      return "a string holds a bad escape: an unknown one, or half a surrogate pair";
    case simdjson::UNESCAPED_CHARS:
      return "a string holds a raw control character; write it as an escape";
    case simdjson::NUMBER_ERROR:
      return "not JSON: a malformed number";
    case simdjson::T_ATOM_ERROR:
    case simdjson::F_ATOM_ERROR:
    case simdjson::N_ATOM_ERROR:
      return "not JSON: a word that is not true, false or null";
    case simdjson::MEMALLOC:
      return text("no memory to parse a row of ", bytes_text(static_cast<int64_t>(json.size())));
    default:
      break;
  }
  if (json.ends_with(','))
    return "not JSON: a comma after the object; rows on lines are not separated by commas";
  if (json.starts_with('{') && !json.ends_with('}'))
    return "not JSON: the object is not closed; is the row torn?";
  return "not JSON";
}

}  // namespace

JsonObject JsonRowParser::parse(std::string_view json) {
  if (json.size() > max_row_bytes)
    throw DataError(text("a row of ", bytes_text(static_cast<int64_t>(json.size())), "; the limit is ",
                         bytes_text(static_cast<int64_t>(max_row_bytes))));
  JsonValue row;
  if (const auto code = parser_.parse(json.data(), json.size()).get(row))
    throw DataError(parse_error(code, json));
  JsonObject object;
  if (row.get(object)) throw DataError(text("found ", type_name(row), ", wanted an object"));
  return object;
}

std::string_view type_name(const JsonValue& value) {
  switch (value.type()) {
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
    case simdjson::dom::element_type::BOOL:
      return "boolean";
    case simdjson::dom::element_type::STRING:
      return "string";
    case simdjson::dom::element_type::ARRAY:
      return "array";
    case simdjson::dom::element_type::OBJECT:
      return "object";
    default:
      return "number";
  }
}

std::optional<Located> find(const JsonObject& object, std::string_view key, std::string_view of) {
  std::optional<Located> found;
  for (const auto field : object) {
    if (field.key != key) continue;
    if (found) throw DataError(text("key '", key, "'", of, " occurs twice"));
    found = Located{field.value, text("key '", key, "'", of)};
  }
  return found;
}

Located need(const JsonObject& object, std::string_view key, std::string_view of) {
  if (auto found = find(object, key, of)) return *std::move(found);
  throw DataError(text("key '", key, "'", of, " is missing; found keys: ", keys_of(object)));
}

bool has(const JsonObject& object, std::string_view key) {
  return object.at_key(key).error() == simdjson::SUCCESS;
}

std::string keys_of(const JsonObject& object) {
  std::vector<std::string> keys;
  for (const auto field : object) {
    if (keys.size() == 12) {
      keys.emplace_back("…");
      break;
    }
    keys.emplace_back(field.key.substr(0, 60));
  }
  return keys.empty() ? "none" : join(keys);
}

void refuse_type(const Located& located, std::string_view wanted) {
  throw DataError(text(located.where, ": found ", type_name(located.value), ", wanted ", wanted));
}

std::string text_of(const Located& located) {
  std::string_view value;
  if (located.value.get(value)) refuse_type(located, "string");
  // The parser lets an escaped low surrogate through; as UTF-8 it is invalid.
  if (!is_utf8(value)) throw DataError(located.where + ": half a surrogate pair in an escape");
  return std::string(value);
}

JsonArray array_of(const Located& located) {
  JsonArray value;
  if (located.value.get(value)) refuse_type(located, "array");
  return value;
}

JsonObject object_of(const Located& located) {
  JsonObject value;
  if (located.value.get(value)) refuse_type(located, "object");
  return value;
}

bool is_null(const Located& located) { return located.value.is_null(); }

std::string json_of(const JsonValue& value) { return simdjson::minify(value); }

std::string json_quoted(std::string_view text) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

}  // namespace duoka::data
