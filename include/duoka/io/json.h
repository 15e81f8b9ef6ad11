// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace duoka::io {

/// A JSON document whose objects keep the order of the text. Looking a key up walks the object: iterate
/// over large ones (a vocabulary) instead. Sources include <nlohmann/json.hpp>.
using Json = nlohmann::ordered_json;

/// Deepest nesting of arrays and objects that parse_json() takes.
inline constexpr int max_json_depth = 256;

/// Parses one document; a byte order mark in front is accepted. Linear in the length of `text`.
/// `origin`: the file's name for messages; `first_line`: the line of the file that `text` starts at.
/// Throws FormatError "origin:line:column: why" (both from 1, column in bytes) for malformed text, invalid
/// UTF-8, lone surrogates, a key given twice, nesting deeper than max_json_depth, numbers beyond double.
Json parse_json(std::string_view text, const std::string& origin, int64_t first_line = 1);

/// parse_json() of a file. Throws SystemError when it cannot be read.
Json read_json_file(const std::filesystem::path& path);

// Typed members of `object`. `origin` (the file's name) and `key` are in every message. A key that is absent
// or null is a FormatError from require_* and nothing from optional_*; a value of another type is a
// FormatError from both, as is an `object` that is no object.

/// Whole numbers; 4096.0 counts as one.
int64_t require_int(const Json& object, std::string_view key, const std::string& origin);
double require_number(const Json& object, std::string_view key, const std::string& origin);
bool require_bool(const Json& object, std::string_view key, const std::string& origin);
std::string require_string(const Json& object, std::string_view key, const std::string& origin);
const Json& require_object(const Json& object, std::string_view key, const std::string& origin);
const Json& require_array(const Json& object, std::string_view key, const std::string& origin);

std::optional<int64_t> optional_int(const Json& object, std::string_view key, const std::string& origin);
std::optional<double> optional_number(const Json& object, std::string_view key, const std::string& origin);
std::optional<bool> optional_bool(const Json& object, std::string_view key, const std::string& origin);
std::optional<std::string> optional_string(const Json& object, std::string_view key,
                                           const std::string& origin);
/// A pointer into `object`, null when there is none.
const Json* optional_object(const Json& object, std::string_view key, const std::string& origin);
const Json* optional_array(const Json& object, std::string_view key, const std::string& origin);

}  // namespace duoka::io
