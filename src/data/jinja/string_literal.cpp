// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/string_literal.h"

#include <cstdint>

#include "data/jinja/unicode.h"

namespace duoka::data::jinja {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

/// Reads up to `most` digits of `base` at `at`; the number of digits read.
size_t read_digits(std::string_view inside, size_t at, size_t most, int base, uint32_t& value) {
  size_t count = 0;
  value = 0;
  while (count < most && at + count < inside.size() && digit_of(inside[at + count]) < base) {
    value = value * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit_of(inside[at + count]));
    ++count;
  }
  return count;
}

const char* simple_escape(char c) {
  switch (c) {
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case 'r':
      return "\r";
    case 'b':
      return "\b";
    case 'f':
      return "\f";
    case 'v':
      return "\v";
    case 'a':
      return "\a";
    case '\\':
      return "\\";
    case '\'':
      return "'";
    case '"':
      return "\"";
    case '\n':
      return "";
    default:
      return nullptr;
  }
}

bool is_scalar(uint32_t c) { return c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF); }

/// Appends what the escape at `at` (behind the backslash) stands for; the bytes it takes, 0 if unknown.
size_t append_escape(std::string_view inside, size_t at, std::string& out) {
  const char c = inside[at];
  if (const char* simple = simple_escape(c)) {
    out += simple;
    return 1;
  }
  uint32_t value = 0;
  if (const size_t count = read_digits(inside, at, 3, 8, value)) {
    append_utf8(out, value);
    return count;
  }
  const size_t width = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (width == 0 || read_digits(inside, at + 1, width, 16, value) != width) return 0;
  size_t used = 1 + width;
  uint32_t low = 0;
  // A pair of surrogates written as two escapes is one character.
  if (value >= 0xD800 && value < 0xDC00 && inside.substr(at + used, 2) == "\\u" &&
      read_digits(inside, at + used + 2, 4, 16, low) == 4 && low >= 0xDC00 && low < 0xE000) {
    value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
    used += 6;
  }
  append_utf8(out, is_scalar(value) ? value : 0xFFFD);
  return used;
}

}  // namespace

std::string unescaped(std::string_view inside) {
  std::string out;
  for (size_t at = 0; at < inside.size();) {
    if (inside[at] != '\\' || at + 1 >= inside.size()) {
      out += inside[at++];
      continue;
    }
    const size_t used = append_escape(inside, at + 1, out);
    if (used == 0) out += inside[at];
    at += 1 + used;
  }
  return out;
}

}  // namespace duoka::data::jinja
