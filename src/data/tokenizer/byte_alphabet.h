// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace duoka::data {

// Byte-level vocabularies spell each byte as one printable character: itself where it is one in Latin-1,
// else U+0100 + n, n counting the others up ("Ġ" is the space). Due to GPT-2's encoder.py.

/// Appends the character of `byte`.
void append_spelled(uint8_t byte, std::string& out);
/// The bytes that `spelled` stands for; nothing when it holds a character that spells no byte.
std::optional<std::string> spelled_bytes(std::string_view spelled);

}  // namespace duoka::data
