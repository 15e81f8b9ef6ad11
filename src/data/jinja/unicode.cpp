// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/unicode.h"

#include <utf8proc.h>

namespace duoka::data::jinja {
namespace {

struct Char {
  uint32_t code_point;
  size_t bytes;
};

Char decode(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1};
  utf8proc_int32_t code_point = 0;
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
  const auto used = utf8proc_iterate(data, static_cast<utf8proc_ssize_t>(text.size() - at), &code_point);
  if (used <= 0) return {0xFFFD, 1};
  return {static_cast<uint32_t>(code_point), static_cast<size_t>(used)};
}

bool contains_char(std::string_view chars, uint32_t code_point) {
  for (size_t at = 0; at < chars.size();) {
    const Char c = decode(chars, at);
    if (c.code_point == code_point) return true;
    at += c.bytes;
  }
  return false;
}

bool is_stripped(uint32_t code_point, std::string_view chars) {
  return chars.empty() ? is_space(code_point) : contains_char(chars, code_point);
}

}  // namespace

size_t char_bytes(std::string_view text, size_t at) { return decode(text, at).bytes; }
uint32_t char_at(std::string_view text, size_t at) { return decode(text, at).code_point; }

int64_t count_chars(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); at += char_bytes(text, at)) ++count;
  return count;
}

size_t char_offset(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += char_bytes(text, at);
  return at;
}

void append_utf8(std::string& out, uint32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_line_break(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_letter(uint32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_letter_or_number(uint32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return is_letter(c) || (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

bool is_decimal(uint32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
}

uint32_t with_case(uint32_t code_point, Case wanted) {
  const auto c = static_cast<utf8proc_int32_t>(code_point);
  switch (wanted) {
    case Case::upper:
      return static_cast<uint32_t>(utf8proc_toupper(c));
    case Case::lower:
      return static_cast<uint32_t>(utf8proc_tolower(c));
    case Case::title:
      return static_cast<uint32_t>(utf8proc_totitle(c));
  }
  return code_point;
}

size_t leading_bytes(std::string_view text, std::string_view chars) {
  size_t at = 0;
  while (at < text.size()) {
    const Char c = decode(text, at);
    if (!is_stripped(c.code_point, chars)) break;
    at += c.bytes;
  }
  return at;
}

size_t trailing_bytes(std::string_view text, std::string_view chars) {
  size_t end = text.size();
  while (end > 0) {
    size_t start = end - 1;
    while (start > 0 && end - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    Char c = decode(text, start);
    if (start + c.bytes != end) {
      // A stray continuation byte is a character of its own.
      start = end - 1;
      c = {0xFFFD, 1};
    }
    if (!is_stripped(c.code_point, chars)) break;
    end = start;
  }
  return text.size() - end;
}

}  // namespace duoka::data::jinja
