// SPDX-License-Identifier: Apache-2.0
#include "io/gguf_values.h"

#include <array>
#include <cstring>
#include <limits>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/gguf.h"

namespace duoka::io {

namespace gguf {

namespace {
struct TypeRow {
  uint64_t size;
  std::string_view name;
};
constexpr std::array<TypeRow, 13> types{{{1, "u8"},
                                         {1, "i8"},
                                         {2, "u16"},
                                         {2, "i16"},
                                         {4, "u32"},
                                         {4, "i32"},
                                         {4, "f32"},
                                         {1, "bool"},
                                         {0, "string"},
                                         {0, "array"},
                                         {8, "u64"},
                                         {8, "i64"},
                                         {8, "f64"}}};
}  // namespace

uint64_t size_of_type(uint32_t type) { return type < types.size() ? types[type].size : 0; }
std::string_view type_name(uint32_t type) {
  return type < types.size() ? types[type].name : "an unknown type";
}

}  // namespace gguf

namespace {

template <class Number>
Number load(std::span<const std::byte> bytes) {
  Number value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// An element of an integer type; nothing for other types and for what i64 cannot hold.
std::optional<int64_t> load_int(uint32_t type, std::span<const std::byte> bytes) {
  switch (type) {
    case gguf::u8_type:
      return load<uint8_t>(bytes);
    case gguf::i8_type:
      return load<int8_t>(bytes);
    case gguf::u16_type:
      return load<uint16_t>(bytes);
    case gguf::i16_type:
      return load<int16_t>(bytes);
    case gguf::u32_type:
      return load<uint32_t>(bytes);
    case gguf::i32_type:
      return load<int32_t>(bytes);
    case gguf::i64_type:
      return load<int64_t>(bytes);
    case gguf::u64_type: {
      const auto value = load<uint64_t>(bytes);
      if (value > uint64_t{std::numeric_limits<int64_t>::max()}) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> load_number(uint32_t type, std::span<const std::byte> bytes) {
  if (type == gguf::f32_type) return load<float>(bytes);
  if (type == gguf::f64_type) return load<double>(bytes);
  if (const auto whole = load_int(type, bytes)) return static_cast<double>(*whole);
  return std::nullopt;
}

/// The string at the front of `bytes`, which lose it. Lengths were checked when the file was opened.
std::string_view take_string(std::span<const std::byte>& bytes) {
  const auto length = load<uint64_t>(bytes);
  const auto taken = bytes.subspan(sizeof length, length);
  bytes = bytes.subspan(sizeof length + length);
  return gguf::as_text(taken);
}

}  // namespace

const GgufFile::Value* GgufFile::value(std::string_view key) const {
  const auto at = metadata_.find(std::string(key));
  return at == metadata_.end() ? nullptr : &at->second;
}

void GgufFile::refuse(std::string_view key, const Value* found, std::string_view wanted) const {
  if (found == nullptr)
    throw FormatError(text(path().string(), ": the metadata key ", key, " is missing; wanted ", wanted));
  throw FormatError(text(path().string(), ": the metadata key ", key, " is ",
                         found->is_array ? "an array of " : "", gguf::type_name(found->type), "; wanted ",
                         wanted));
}

std::optional<int64_t> GgufFile::optional_int(std::string_view key) const {
  const Value* found = value(key);
  if (found == nullptr) return std::nullopt;
  const auto number = found->is_array ? std::nullopt : load_int(found->type, found->bytes);
  if (!number) refuse(key, found, "a whole number that fits i64");
  return number;
}

std::optional<double> GgufFile::optional_number(std::string_view key) const {
  const Value* found = value(key);
  if (found == nullptr) return std::nullopt;
  const auto number = found->is_array ? std::nullopt : load_number(found->type, found->bytes);
  if (!number) refuse(key, found, "a number");
  return number;
}

std::optional<bool> GgufFile::optional_bool(std::string_view key) const {
  const Value* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (found->is_array || found->type != gguf::bool_type) refuse(key, found, "a bool");
  return load<uint8_t>(found->bytes) != 0;
}

std::optional<std::string_view> GgufFile::optional_string(std::string_view key) const {
  const Value* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (found->is_array || found->type != gguf::string_type) refuse(key, found, "a string");
  std::span<const std::byte> bytes = found->bytes;
  return take_string(bytes);
}

int64_t GgufFile::require_int(std::string_view key) const {
  if (const auto found = optional_int(key)) return *found;
  refuse(key, nullptr, "a whole number");
}

double GgufFile::require_number(std::string_view key) const {
  if (const auto found = optional_number(key)) return *found;
  refuse(key, nullptr, "a number");
}

bool GgufFile::require_bool(std::string_view key) const {
  if (const auto found = optional_bool(key)) return *found;
  refuse(key, nullptr, "a bool");
}

std::string_view GgufFile::require_string(std::string_view key) const {
  if (const auto found = optional_string(key)) return *found;
  refuse(key, nullptr, "a string");
}

std::vector<std::string_view> GgufFile::strings(std::string_view key) const {
  const Value* found = value(key);
  if (found == nullptr) return {};
  if (!found->is_array || found->type != gguf::string_type) refuse(key, found, "an array of strings");
  std::vector<std::string_view> all;
  all.reserve(found->count);
  for (auto rest = found->bytes; !rest.empty();) all.push_back(take_string(rest));
  return all;
}

std::vector<int64_t> GgufFile::ints(std::string_view key) const {
  const Value* found = value(key);
  if (found == nullptr) return {};
  const uint64_t size = gguf::size_of_type(found->type);
  std::vector<int64_t> all;
  for (uint64_t i = 0; found->is_array && size != 0 && i < found->count; ++i) {
    const auto number = load_int(found->type, found->bytes.subspan(i * size, size));
    if (!number) break;
    all.push_back(*number);
  }
  if (!found->is_array || all.size() != found->count) refuse(key, found, "an array of whole numbers");
  return all;
}

std::vector<float> GgufFile::floats(std::string_view key) const {
  const Value* found = value(key);
  if (found == nullptr) return {};
  if (!found->is_array || found->type != gguf::f32_type) refuse(key, found, "an array of f32");
  std::vector<float> all(found->count);
  if (!all.empty()) std::memcpy(all.data(), found->bytes.data(), found->bytes.size());
  return all;
}

}  // namespace duoka::io
