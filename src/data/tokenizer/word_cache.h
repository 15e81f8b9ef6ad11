// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace duoka::data {

/// Tokens of words seen before. Direct-mapped: a word has one place and takes it from whoever is there, so
/// the size is bounded (1 MiB) and a look-up is one cache line. For one thread.
class WordCache {
 public:
  static constexpr size_t max_word = 30;  ///< Bytes; longer words are not kept.
  static constexpr size_t max_ids = 8;

  WordCache() : entries_(num_entries) {}

  /// The ids kept for `word`, empty when there are none. `is_whole`: the word is all of a piece, in a model
  /// that has other rules for such; kept apart.
  std::span<const int32_t> find(std::string_view word, bool is_whole) const {
    if (word.size() > max_word) return {};
    const Entry& entry = entries_[place(word, is_whole)];
    if (entry.kind != kind_of(word, is_whole)) return {};
    if (std::memcmp(entry.word.data(), word.data(), word.size()) != 0) return {};
    return std::span(entry.ids).first(entry.num_ids);
  }

  void keep(std::string_view word, bool is_whole, std::span<const int32_t> ids) {
    if (word.empty() || word.size() > max_word || ids.empty() || ids.size() > max_ids) return;
    Entry& entry = entries_[place(word, is_whole)];
    entry.kind = kind_of(word, is_whole);
    entry.num_ids = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::memcpy(entry.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr size_t num_entries = size_t{1} << 14;
  struct alignas(64) Entry {
    uint8_t kind = 0;  ///< 2 size + is_whole.
    uint8_t num_ids = 0;
    std::array<char, max_word> word{};
    std::array<int32_t, max_ids> ids{};
  };
  static_assert(sizeof(Entry) == 64);

  static uint8_t kind_of(std::string_view word, bool is_whole) {
    return static_cast<uint8_t>(2 * word.size() + (is_whole ? 1 : 0));
  }
  static size_t place(std::string_view word, bool is_whole) {
    uint64_t hash = kind_of(word, is_whole);
    while (word.size() >= 8) {
      uint64_t eight = 0;
      std::memcpy(&eight, word.data(), 8);
      hash = mix(hash ^ eight);
      word.remove_prefix(8);
    }
    uint64_t rest = 0;
    for (size_t i = 0; i < word.size(); ++i) rest |= uint64_t{static_cast<uint8_t>(word[i])} << (8 * i);
    return static_cast<size_t>(mix(hash ^ rest)) & (num_entries - 1);
  }
  static uint64_t mix(uint64_t x) {
    x *= 0x9E3779B97F4A7C15U;
    return x ^ x >> 29;
  }

  std::vector<Entry> entries_;
};

}  // namespace duoka::data
