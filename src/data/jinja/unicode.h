// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace duoka::data::jinja {

// Characters of UTF-8 text, as Python's str counts them. A byte that is no valid UTF-8 counts as one
// character, so every function is total.

/// Bytes of the character that starts at `at` (< text.size()); 1 to 4.
size_t char_bytes(std::string_view text, size_t at);
/// Its code point; U+FFFD for a stray byte.
uint32_t char_at(std::string_view text, size_t at);
int64_t count_chars(std::string_view text);
/// Offset of the character with this index; text.size() when there are fewer.
size_t char_offset(std::string_view text, int64_t index);

void append_utf8(std::string& out, uint32_t code_point);

/// What Python's str.isspace() and strip() take for white space.
bool is_space(uint32_t code_point);
/// Where str.splitlines() cuts.
bool is_line_break(uint32_t code_point);

/// General category L; L or N; Nd.
bool is_letter(uint32_t code_point);
bool is_letter_or_number(uint32_t code_point);
bool is_decimal(uint32_t code_point);

enum class Case { upper, lower, title };
uint32_t with_case(uint32_t code_point, Case wanted);

/// Bytes of white space at the start and at the end; `chars` empty: white space, else its characters.
size_t leading_bytes(std::string_view text, std::string_view chars = {});
size_t trailing_bytes(std::string_view text, std::string_view chars = {});

}  // namespace duoka::data::jinja
