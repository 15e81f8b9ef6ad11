// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/byte_alphabet.h"

#include <array>

#include "data/tokenizer/unicode.h"

namespace duoka::data {
namespace {

constexpr size_t num_characters = 0x100 + 68;  // 68 bytes are not printable as themselves

struct Alphabet {
  std::array<char32_t, 256> character_of{};
  std::array<int16_t, num_characters> byte_of{};
};

constexpr bool is_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte_of) byte = -1;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t character = is_itself(byte) ? char32_t{byte} : next++;
    alphabet.character_of[byte] = character;
    alphabet.byte_of[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet alphabet = make_alphabet();

}  // namespace

void append_spelled(uint8_t byte, std::string& out) { append_utf8(alphabet.character_of[byte], out); }

std::optional<std::string> spelled_bytes(std::string_view spelled) {
  std::string bytes;
  bytes.reserve(spelled.size());
  while (!spelled.empty()) {
    const CodePoint c = first_code_point(spelled);
    if (c.value >= num_characters || alphabet.byte_of[c.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(alphabet.byte_of[c.value]));
    spelled.remove_prefix(c.size);
  }
  return bytes;
}

}  // namespace duoka::data
