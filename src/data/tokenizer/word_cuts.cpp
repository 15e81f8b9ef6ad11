// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/word_cuts.h"

#include <algorithm>

namespace duoka::data {
namespace {

constexpr uint32_t max_packed = 4;

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

uint32_t kind_of(uint32_t num_left, uint32_t num_right) { return 4 * (num_left - 1) + num_right - 1; }

/// A word of the filter and two bits in it.
struct Place {
  size_t word;
  uint64_t bits;
};

Place place_of(uint32_t left, uint32_t right, uint32_t kind) {
  uint64_t hash = (uint64_t{left} << 32 | right) + kind;
  hash *= 0x9E3779B97F4A7C15U;
  hash ^= hash >> 32;
  hash *= 0xD6E8FEB86659FD93U;
  return {hash >> 50, uint64_t{1} << (hash >> 44 & 63) | uint64_t{1} << (hash >> 38 & 63)};
}

}  // namespace

WordCuts::Character WordCuts::character_at(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  uint32_t first = static_cast<uint8_t>(text[begin]);
  uint32_t last = first;
  while (end < text.size() && is_continuation(text[end])) {
    const auto byte = static_cast<uint8_t>(text[end]);
    last = last << 8 | byte;
    if (end - begin < max_packed) first = last;
    ++end;
  }
  const auto size = static_cast<uint32_t>(end - begin);
  return {size, std::min(size, max_packed), first, last};
}

void WordCuts::add(std::string_view token) {
  if (token.empty()) return;
  Character left = character_at(token, 0);
  for (size_t at = left.size; at < token.size();) {
    const Character right = character_at(token, at);
    const uint32_t kind = kind_of(left.num_packed, right.num_packed);
    const Place place = place_of(left.last, right.first, kind);
    filter_[place.word] |= place.bits;
    kinds_ |= 1U << kind;
    at += right.size;
    left = right;
  }
}

// A token may begin or end within a character: what it holds of the left one is some of its last bytes, of
// the right one some of its first.
bool WordCuts::is_crossed(const Character& left, const Character& right) const {
  for (uint32_t l = 1; l <= left.num_packed; ++l) {
    const uint32_t last = left.last & (UINT32_MAX >> 8 * (max_packed - l));
    for (uint32_t r = 1; r <= right.num_packed; ++r) {
      const uint32_t kind = kind_of(l, r);
      if ((kinds_ >> kind & 1) == 0) continue;
      const Place place = place_of(last, right.first >> 8 * (right.num_packed - r), kind);
      if ((filter_[place.word] & place.bits) == place.bits) return true;
    }
  }
  return false;
}

size_t WordCuts::word_end(std::string_view piece, size_t begin) const {
  Character left = character_at(piece, begin);
  size_t at = begin + left.size;
  while (at < piece.size()) {
    const Character right = character_at(piece, at);
    if (!is_crossed(left, right)) return at;
    at += right.size;
    left = right;
  }
  return at;
}

}  // namespace duoka::data
