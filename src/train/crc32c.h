// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace duoka::train {

namespace detail {
/// Remainders of each byte for the Castagnoli polynomial, bits reversed (RFC 3720, appendix B.4).
constexpr std::array<uint32_t, 256> crc32c_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = remainder;
  }
  return table;
}
}  // namespace detail

constexpr uint32_t crc32c(std::string_view bytes) {
  constexpr auto table = detail::crc32c_table();
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

/// As TFRecord stores it, so that a CRC over bytes holding CRCs stays useful.
constexpr uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace duoka::train
