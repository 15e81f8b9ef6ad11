// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace duoka::io::gguf {

/// Types of metadata values, as the file numbers them.
enum ValueType : uint32_t {
  u8_type = 0,
  i8_type = 1,
  u16_type = 2,
  i16_type = 3,
  u32_type = 4,
  i32_type = 5,
  f32_type = 6,
  bool_type = 7,
  string_type = 8,
  array_type = 9,
  u64_type = 10,
  i64_type = 11,
  f64_type = 12
};

/// Bytes of a value of fixed size; 0 for strings, arrays and types that do not exist.
uint64_t size_of_type(uint32_t type);
/// "u32"; "type 77".
std::string_view type_name(uint32_t type);

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace duoka::io::gguf
