// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/unicode.h"

#include <cstring>

#include <utf8proc.h>

namespace duoka::data {
namespace {

uint8_t byte_at(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

/// What may follow a lead byte: number of continuation bytes and the range of the first one, which excludes
/// overlong forms, surrogates and values above U+10FFFF.
struct Lead {
  uint8_t num_continuations = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {};
}

/// Length of the leading part of `text` that is a sequence or the beginning of one; `is_whole` tells which.
size_t well_formed_part(std::string_view text, bool& is_whole) {
  const uint8_t first = byte_at(text, 0);
  is_whole = first < 0x80;
  if (is_whole) return 1;
  const Lead lead = lead_of(first);
  if (lead.num_continuations == 0) return 0;
  for (size_t i = 1; i <= lead.num_continuations; ++i) {
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (i >= text.size() || byte_at(text, i) < low || byte_at(text, i) > high) return i;
  }
  is_whole = true;
  return size_t{1} + lead.num_continuations;
}

}  // namespace

size_t sequence_length(std::string_view text, size_t* invalid) {
  if (text.empty()) return 0;
  bool is_whole = false;
  const size_t length = well_formed_part(text, is_whole);
  if (is_whole) return length;
  if (invalid != nullptr) *invalid = length == 0 ? 1 : length;
  return 0;
}

size_t valid_prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    uint64_t eight = 0;
    while (i + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + i, sizeof(eight));
      if ((eight & 0x8080808080808080U) != 0) break;
      i += sizeof(eight);
    }
    if (i == text.size()) break;
    const size_t length = sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return i;
}

std::string lossy_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (true) {
    const size_t valid = valid_prefix(bytes);
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return out;
    size_t invalid = 0;
    sequence_length(bytes, &invalid);
    out.append("\xEF\xBF\xBD");
    bytes.remove_prefix(invalid);
  }
}

size_t unfinished_tail(std::string_view bytes) {
  for (size_t length = 1; length <= 3 && length <= bytes.size(); ++length) {
    const std::string_view tail = bytes.substr(bytes.size() - length);
    if ((byte_at(tail, 0) & 0xC0) == 0x80) continue;  // a continuation byte: its lead is further left
    bool is_whole = false;
    return well_formed_part(tail, is_whole) == length && !is_whole ? length : 0;
  }
  return 0;
}

CodePoint first_code_point(std::string_view text) {
  const uint8_t first = byte_at(text, 0);
  if (first < 0x80) return {first, 1};
  const auto continuation = [&](size_t i) { return char32_t{static_cast<uint8_t>(byte_at(text, i) & 0x3F)}; };
  if (first < 0xE0) return {(char32_t{first} & 0x1F) << 6 | continuation(1), 2};
  if (first < 0xF0) {
    return {(char32_t{first} & 0x0F) << 12 | continuation(1) << 6 | continuation(2), 3};
  }
  return {(char32_t{first} & 0x07) << 18 | continuation(1) << 12 | continuation(2) << 6 | continuation(3), 4};
}

CodePoint last_code_point(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (byte_at(text, begin) & 0xC0) == 0x80) --begin;
  return first_code_point(text.substr(begin));
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto value = static_cast<uint32_t>(code_point);
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | value >> 6);
    put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | value >> 12);
    put(0x80 | (value >> 6 & 0x3F));
    put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | value >> 18);
    put(0x80 | (value >> 12 & 0x3F));
    put(0x80 | (value >> 6 & 0x3F));
    put(0x80 | (value & 0x3F));
  }
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || c == 0x20;
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_word(char32_t c) {
  // Alphabetic beyond letters, letter numbers and marks: circled and squared Latin letters.
  if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
      (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C || c == 0x200D) {
    return true;
  }
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ME) ||
         category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_PC;
}

const char* const space_class =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
const char* const not_space_class =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
// As is_word() but for Oniguruma's differences: no joiners, and the fractions and superscripts of Latin-1.
const char* const word_class =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149})"
    R"(\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

}  // namespace duoka::data
