// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <simdjson.h>

namespace duoka::data {

// All functions here throw DataError with a reason that has no file and line.

using JsonValue = simdjson::dom::element;
using JsonObject = simdjson::dom::object;
using JsonArray = simdjson::dom::array;

/// A value within a row, with words for where it is: "key 'output'", "key 'value' of turn 2".
struct Located {
  JsonValue value;
  std::string where;
};

/// Parses rows, using its memory again for each one.
class JsonRowParser {
 public:
  /// The object that is the row. Valid until the next call.
  JsonObject parse(std::string_view json);

 private:
  simdjson::dom::parser parser_;
};

/// "null", "boolean", "number", "string", "array" or "object".
std::string_view type_name(const JsonValue& value);

/// The value of `key`; nothing when it is not there. Refuses a key that occurs twice.
/// `of`: what the object is, " of turn 2", or "" for the row.
std::optional<Located> find(const JsonObject& object, std::string_view key, std::string_view of = {});
/// The same, refusing an object without the key.
Located need(const JsonObject& object, std::string_view key, std::string_view of = {});
bool has(const JsonObject& object, std::string_view key);
/// "a, b, c": the object's keys, for messages; the first 12.
std::string keys_of(const JsonObject& object);

std::string text_of(const Located& located);
JsonArray array_of(const Located& located);
JsonObject object_of(const Located& located);
bool is_null(const Located& located);

/// The value as JSON, without white space between tokens.
std::string json_of(const JsonValue& value);
/// `text` as a JSON string, with its quotes.
std::string json_quoted(std::string_view text);
bool is_utf8(std::string_view text);

[[noreturn]] void refuse_type(const Located& located, std::string_view wanted);

}  // namespace duoka::data
