// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace duoka::io {

/// Element types of tensors in files.
enum class DType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  f8_e4m3,
  f8_e5m2
};

/// Bytes of one element.
int64_t size_of(DType dtype);
/// As safetensors writes it: "BF16".
std::string_view safetensors_name(DType dtype);
/// The reverse; nothing for a name that is not one of ours.
std::optional<DType> dtype_from_safetensors(std::string_view name);

/// Half-precision numbers as their bits. To f32 is exact; from f32 rounds to nearest, ties to even, too
/// large becomes infinity, NaN stays NaN.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);

/// `bytes`: out.size() elements of `from` (f64, f32, f16 or bf16), little-endian, of any alignment.
/// Throws StateError for another dtype or when sizes disagree.
void convert_to_float(std::span<const std::byte> bytes, DType from, std::span<float> out);
/// The reverse, into f32, f16 or bf16.
void convert_from_float(std::span<const float> values, DType to, std::span<std::byte> out);

}  // namespace duoka::io
