// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace duoka::data {

/// Where a piece can be cut without a change of its tokens: between two characters that no token runs across.
///
/// A merge across a place makes a token whose bytes lie around it, so where there is no such token each side
/// merges as if it were alone. Text without spaces (Chinese) is one piece a sentence, which no cache has seen
/// before; cut like this it becomes words of a few characters that come again and again.
///
/// Holds a Bloom filter (Bloom 1970) of the pairs of neighbouring characters in tokens, 128 KiB: a pair taken
/// for another one costs a cut, never a wrong token. Any bytes will do: a character is a byte with the
/// continuation bytes of UTF-8 behind it.
class WordCuts {
 public:
  WordCuts() : filter_(num_words) {}

  /// A token that merges may make, as bytes of a piece.
  void add(std::string_view token);

  /// End of the word that begins at byte `begin` of `piece`, begin < piece.size(). O(size of the word).
  size_t word_end(std::string_view piece, size_t begin) const;

 private:
  static constexpr size_t num_words = size_t{1} << 14;

  /// What a token may hold of a character at its end: the bytes at either side, 4 at most, packed.
  struct Character {
    uint32_t size;
    uint32_t num_packed;
    uint32_t first;
    uint32_t last;
  };
  static Character character_at(std::string_view text, size_t begin);
  bool is_crossed(const Character& left, const Character& right) const;

  std::vector<uint64_t> filter_;
  uint32_t kinds_ = 0;  ///< Bit 4 (l - 1) + r - 1: there is a pair of l and r bytes.
};

}  // namespace duoka::data
