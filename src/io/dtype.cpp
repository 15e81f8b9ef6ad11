// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/dtype.h"

#include <array>
#include <bit>
#include <cstring>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::io {

namespace {

static_assert(std::endian::native == std::endian::little, "tensor files are read in place, as little-endian");

struct Row {
  DType dtype;
  int64_t size;
  std::string_view name;
};
constexpr std::array<Row, 15> rows{{{DType::f64, 8, "F64"},
                                    {DType::f32, 4, "F32"},
                                    {DType::f16, 2, "F16"},
                                    {DType::bf16, 2, "BF16"},
                                    {DType::i64, 8, "I64"},
                                    {DType::i32, 4, "I32"},
                                    {DType::i16, 2, "I16"},
                                    {DType::i8, 1, "I8"},
                                    {DType::u64, 8, "U64"},
                                    {DType::u32, 4, "U32"},
                                    {DType::u16, 2, "U16"},
                                    {DType::u8, 1, "U8"},
                                    {DType::boolean, 1, "BOOL"},
                                    {DType::f8_e4m3, 1, "F8_E4M3"},
                                    {DType::f8_e5m2, 1, "F8_E5M2"}}};

constexpr const Row& row_of(DType dtype) { return rows[static_cast<size_t>(dtype)]; }
constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < rows.size(); ++i)
    if (static_cast<size_t>(rows[i].dtype) != i) return false;
  return true;
}
static_assert(rows_are_in_order());

}  // namespace

int64_t size_of(DType dtype) { return row_of(dtype).size; }

std::string_view safetensors_name(DType dtype) { return row_of(dtype).name; }

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
  // Read as an f32 of the same fields the number is 2^-112 of itself, subnormals included; scaling is exact.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);   // NaN
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 65536 and more
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the half is a multiple of 2^-24: adding 0.5, whose ulp is 2^-24, makes the f32 adder round
    // to it, and the low bits are the half's.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(0.5f)));
  }
  // Half an ulp minus one, plus one where the kept part is odd: to nearest, ties to even. A carry runs into
  // the exponent, as it should, up to infinity.
  const uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // A NaN whose payload is in the low bits would round to infinity: keep it quiet.
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

namespace {

template <class Element, class Convert>
void read_each(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);
    out[i] = convert(element);
  }
}

template <class Element, class Convert>
void write_each(std::span<const float> values, std::span<std::byte> out, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Element element = convert(values[i]);
    std::memcpy(out.data() + i * sizeof element, &element, sizeof element);
  }
}

void expect_size(size_t bytes, size_t count, DType dtype) {
  if (bytes != count * static_cast<size_t>(size_of(dtype)))
    throw StateError(text("conversion of ", count, " elements of ", safetensors_name(dtype), " given ", bytes,
                          " bytes; wanted ", count * static_cast<size_t>(size_of(dtype))));
}

[[noreturn]] void refuse(DType dtype, const char* direction) {
  throw StateError(
      text("cannot convert ", direction, " ", safetensors_name(dtype), "; wanted a floating type"));
}

}  // namespace

void convert_to_float(std::span<const std::byte> bytes, DType from, std::span<float> out) {
  expect_size(bytes.size(), out.size(), from);
  switch (from) {
    case DType::f64:
      return read_each<double>(bytes, out, [](double v) { return static_cast<float>(v); });
    case DType::f32:
      if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      return;
    case DType::f16:
      return read_each<uint16_t>(bytes, out, half_to_float);
    case DType::bf16:
      return read_each<uint16_t>(bytes, out, bfloat16_to_float);
    default:
      refuse(from, "from");
  }
}

void convert_from_float(std::span<const float> values, DType to, std::span<std::byte> out) {
  expect_size(out.size(), values.size(), to);
  switch (to) {
    case DType::f32:
      if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
      return;
    case DType::f16:
      return write_each<uint16_t>(values, out, float_to_half);
    case DType::bf16:
      return write_each<uint16_t>(values, out, float_to_bfloat16);
    default:
      refuse(to, "to");
  }
}

}  // namespace duoka::io
