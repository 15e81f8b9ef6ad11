// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizer/merge.h"
#include "data/tokenizer/merge_table.h"
#include "data/tokenizer/vocabulary.h"
#include "data/tokenizer/word_cache.h"
#include "data/tokenizer/word_cuts.h"

namespace duoka::data {

/// The "model" of a tokenizer.json, read: what decides how a piece is encoded.
struct BpeModel {
  /// Pieces are raw bytes, which the vocabulary spells in the byte alphabet; else they are UTF-8 and the
  /// vocabulary holds them as they are.
  bool is_byte_level = false;
  bool has_byte_fallback = false;  ///< A character that is no token becomes the tokens "<0xHH>" of its bytes.
  bool fuses_unknown = false;      ///< Neighbouring unknown characters become one unknown token.
  bool ignores_merges = false;     ///< A piece that is a token is that token, merges or not.
  std::optional<int32_t> unknown_id;
  MergeTable merges{0};
};

/// Where tokens go: ids, and the byte of the piece each begins at.
struct TokenSink {
  std::vector<int32_t>& ids;
  std::vector<uint32_t>& begins;
};

/// What one thread needs to encode: words seen before and room to work.
struct BpeState {
  WordCache cache;
  Merger merger;
  std::vector<Symbol> symbols;

  /// Gives back what an unusually long piece took.
  void shrink();
};

/// Byte-pair encoding (Sennrich et al. 2016, section 3.2) of pieces of text.
class Bpe {
 public:
  /// `vocabulary` holds the model's own tokens now (more may be added later) and outlives this object.
  Bpe(BpeModel model, const Vocabulary& vocabulary);

  /// Which ids are control tokens: what encode() avoids on demand. Before the first encode().
  void set_controls(std::vector<bool> is_control);

  /// Appends the tokens of `piece`, not empty. O(n log n) at worst. `avoids_controls`: a control token comes
  /// apart into what it is merged from, as far as it can.
  void encode(std::string_view piece, bool avoids_controls, BpeState& state, TokenSink out) const;

 private:
  void find_bytes();
  void measure();
  void find_cuts();
  void find_marks();
  bool is_model_token(int32_t id) const {
    return static_cast<size_t>(id) < lengths_.size() && lengths_[static_cast<size_t>(id)] > 0;
  }
  bool is_control(int32_t id) const {
    return static_cast<size_t>(id) < is_control_.size() && is_control_[static_cast<size_t>(id)];
  }
  void encode_freely(std::string_view piece, BpeState& state, TokenSink out) const;
  void encode_apart(std::string_view piece, BpeState& state, TokenSink out) const;
  size_t word_end(std::string_view piece, size_t begin) const;
  void encode_word(std::string_view word, uint32_t begin, BpeState& state, TokenSink out) const;
  void encode_new_word(std::string_view word, uint32_t begin, bool may_be_whole, BpeState& state,
                       TokenSink out) const;
  void merge_word(std::string_view word, uint32_t begin, BpeState& state, TokenSink out) const;
  std::optional<int32_t> whole_word(std::string_view word) const;
  void add_lengthwise(std::span<const int32_t> ids, uint32_t begin, TokenSink out) const;
  void first_symbols(std::string_view word, std::vector<Symbol>& symbols) const;
  std::optional<int32_t> character_token(std::string_view character) const;
  bool add_fallback(std::string_view character, uint32_t begin, std::vector<Symbol>& symbols) const;
  void add_parts(int32_t id, uint32_t begin, TokenSink out) const;

  BpeModel model_;
  const Vocabulary& vocabulary_;
  std::array<int32_t, 256> byte_ids_;      ///< Token of one byte (byte-level) or ASCII character; -1: none.
  std::array<int32_t, 256> fallback_ids_;  ///< "<0xHH>"; -1: none.
  std::vector<uint32_t> lengths_;          ///< Bytes of a piece that a token covers; 0: not the model's.
  size_t longest_ = 0;                     ///< The most of them.
  std::optional<WordCuts> cuts_;           ///< Of byte-level models.
  bool cuts_at_marks_ = false;             ///< No token runs from another character into a "▁".
  std::vector<bool> is_control_;
  std::unordered_map<int32_t, std::pair<int32_t, int32_t>> control_parts_;
};

}  // namespace duoka::data
