// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/dtype.h"
#include "duoka/io/gguf.h"
#include "io/ggml_types.h"

namespace duoka::io {

// A block is 32 consecutive elements of a row with a scale d, and a minimum m where the type ends in _1:
//   x = d (q - zero)   or   x = d q + m.
// Four bits of element i lie in the low half of byte i, of element i + 16 in the high half. A fifth bit
// lies in a word of its own, at bit i of element i.
// This file is compiled without contraction into fused multiply-adds: two roundings, as ggml has it.

namespace {

constexpr int64_t block_length = 32;
constexpr int half_block = 16;

float load_half(const std::byte* at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return half_to_float(bits);
}

void decode_q8_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  int8_t q[block_length];
  std::memcpy(q, block + 2, sizeof q);
  for (int i = 0; i < block_length; ++i) out[i] = static_cast<float>(q[i]) * d;
}

void decode_q4_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  uint8_t q[half_block];
  std::memcpy(q, block + 2, sizeof q);
  for (int i = 0; i < half_block; ++i) out[i] = static_cast<float>((q[i] & 0x0F) - 8) * d;
  for (int i = 0; i < half_block; ++i) out[i + half_block] = static_cast<float>((q[i] >> 4) - 8) * d;
}

void decode_q4_1(const std::byte* block, float* out) {
  const float d = load_half(block), m = load_half(block + 2);
  uint8_t q[half_block];
  std::memcpy(q, block + 4, sizeof q);
  for (int i = 0; i < half_block; ++i) out[i] = static_cast<float>(q[i] & 0x0F) * d + m;
  for (int i = 0; i < half_block; ++i) out[i + half_block] = static_cast<float>(q[i] >> 4) * d + m;
}

/// The five-bit numbers of a block: `high` has the fifth bits, `low` the nibbles.
struct FiveBits {
  uint32_t high;
  uint8_t low[half_block];

  explicit FiveBits(const std::byte* at) {
    std::memcpy(&high, at, sizeof high);
    std::memcpy(low, at + sizeof high, sizeof low);
  }
  int first(int i) const { return (low[i] & 0x0F) | static_cast<int>((high >> i & 1u) << 4); }
  int second(int i) const { return (low[i] >> 4) | static_cast<int>((high >> (i + half_block) & 1u) << 4); }
};

void decode_q5_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  const FiveBits q(block + 2);
  for (int i = 0; i < half_block; ++i) out[i] = static_cast<float>(q.first(i) - 16) * d;
  for (int i = 0; i < half_block; ++i) out[i + half_block] = static_cast<float>(q.second(i) - 16) * d;
}

void decode_q5_1(const std::byte* block, float* out) {
  const float d = load_half(block), m = load_half(block + 2);
  const FiveBits q(block + 4);
  for (int i = 0; i < half_block; ++i) out[i] = static_cast<float>(q.first(i)) * d + m;
  for (int i = 0; i < half_block; ++i) out[i + half_block] = static_cast<float>(q.second(i)) * d + m;
}

template <auto decode>
void decode_blocks(std::span<const std::byte> bytes, size_t block_bytes, std::span<float> out) {
  const std::byte* block = bytes.data();
  for (size_t at = 0; at < out.size(); at += block_length, block += block_bytes)
    decode(block, out.data() + at);
}

void decode(GgmlType type, std::span<const std::byte> bytes, size_t block_bytes, std::span<float> out) {
  switch (type) {
    case GgmlType::f32:
      return convert_to_float(bytes, DType::f32, out);
    case GgmlType::f16:
      return convert_to_float(bytes, DType::f16, out);
    case GgmlType::bf16:
      return convert_to_float(bytes, DType::bf16, out);
    case GgmlType::q8_0:
      return decode_blocks<decode_q8_0>(bytes, block_bytes, out);
    case GgmlType::q4_0:
      return decode_blocks<decode_q4_0>(bytes, block_bytes, out);
    case GgmlType::q4_1:
      return decode_blocks<decode_q4_1>(bytes, block_bytes, out);
    case GgmlType::q5_0:
      return decode_blocks<decode_q5_0>(bytes, block_bytes, out);
    case GgmlType::q5_1:
      return decode_blocks<decode_q5_1>(bytes, block_bytes, out);
  }
  throw FormatError(text("quantisation ", ggml_type_name(type),
                         " is not supported; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1 are"));
}

}  // namespace

void dequantize_rows(const GgufTensor& tensor, int64_t first_row, int64_t num_rows, std::span<float> out) {
  if (first_row < 0 || num_rows < 0 || num_rows > tensor.num_rows() ||
      first_row > tensor.num_rows() - num_rows)
    throw StateError(text("rows [", first_row, ", ", first_row + num_rows, ") of ", tensor.name,
                          ", which has ", tensor.num_rows()));
  const auto num_values = static_cast<size_t>(num_rows * tensor.row_length());
  if (out.size() != num_values)
    throw StateError(text("room for ", out.size(), " values of ", tensor.name, "; wanted ", num_values));
  const GgmlTypeInfo* type = find_ggml_type(static_cast<uint32_t>(tensor.type));
  if (type == nullptr) throw StateError(text("tensor ", tensor.name, " is not of a GGUF file"));
  const auto row_bytes = static_cast<size_t>(tensor.row_length() / type->block_length * type->block_bytes);
  const auto bytes = tensor.bytes.subspan(static_cast<size_t>(first_row) * row_bytes,
                                          static_cast<size_t>(num_rows) * row_bytes);
  within(text("reading tensor ", tensor.name),
         [&] { decode(tensor.type, bytes, static_cast<size_t>(type->block_bytes), out); });
}

void dequantize(const GgufTensor& tensor, std::span<float> out) {
  dequantize_rows(tensor, 0, tensor.num_rows(), out);
}

}  // namespace duoka::io
