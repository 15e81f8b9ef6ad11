// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace duoka::data {

/// Bytes of the valid UTF-8 sequence that `text` starts with; 0 when it starts with none, and then
/// `invalid` (if given) is the length of the maximal invalid sequence there (1 to 3, Unicode 15, 3.9,
/// U+FFFD).
size_t sequence_length(std::string_view text, size_t* invalid = nullptr);

/// Offset of the first byte that is not part of valid UTF-8; text.size() when all of it is.
size_t valid_prefix(std::string_view text);

/// Each maximal invalid sequence replaced by U+FFFD.
std::string lossy_utf8(std::string_view bytes);

/// Bytes at the end of `bytes` that may yet become a character when more follow: 0 to 3.
size_t unfinished_tail(std::string_view bytes);

/// A character of valid UTF-8 and its length in bytes.
struct CodePoint {
  char32_t value = 0;
  size_t size = 0;
};
/// The first character of a non-empty valid text.
CodePoint first_code_point(std::string_view text);
/// The last one.
CodePoint last_code_point(std::string_view text);
void append_utf8(char32_t code_point, std::string& out);

/// White_Space of Unicode, as Rust's char::is_whitespace and Oniguruma's \s.
bool is_space(char32_t c);
/// General category N (Nd, Nl, No), as Rust's char::is_numeric.
bool is_numeric(char32_t c);
/// ASCII punctuation (symbols included) or general category P.
bool is_punctuation(char32_t c);
/// \w of Rust's regex crate: Alphabetic, marks, decimal digits, connectors, joiners.
bool is_word(char32_t c);

/// Both lists in the syntax of a PCRE2 character class, without brackets.
extern const char* const space_class;
extern const char* const not_space_class;
extern const char* const word_class;

}  // namespace duoka::data
