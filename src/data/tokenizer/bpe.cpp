// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/bpe.h"

#include <algorithm>

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/unicode.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

constexpr std::string_view mark = "\xE2\x96\x81";  // ▁

std::string fallback_text(unsigned byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return text("<0x", digits[byte >> 4], digits[byte & 15], ">");
}

}  // namespace

void BpeState::shrink() {
  merger.shrink();
  if (symbols.capacity() > (size_t{1} << 16)) std::vector<Symbol>().swap(symbols);
}

Bpe::Bpe(BpeModel model, const Vocabulary& vocabulary) : model_(std::move(model)), vocabulary_(vocabulary) {
  find_bytes();
  measure();
  if (model_.is_byte_level) {
    find_cuts();
  } else {
    find_marks();
  }
}

void Bpe::find_bytes() {
  byte_ids_.fill(-1);
  fallback_ids_.fill(-1);
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string spelled;
    if (model_.is_byte_level) {
      append_spelled(static_cast<uint8_t>(byte), spelled);
    } else if (byte < 0x80) {
      spelled.push_back(static_cast<char>(byte));
    }
    byte_ids_[byte] = vocabulary_.find(spelled).value_or(-1);
    if (model_.has_byte_fallback) fallback_ids_[byte] = vocabulary_.find(fallback_text(byte)).value_or(-1);
  }
}

void Bpe::measure() {
  lengths_.resize(static_cast<size_t>(vocabulary_.size()));
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view token = vocabulary_.text(id);
    const size_t size = model_.is_byte_level ? spelled_bytes(token).value_or("").size() : token.size();
    lengths_[static_cast<size_t>(id)] = static_cast<uint32_t>(size);
    longest_ = std::max(longest_, size);
  }
  for (const int32_t id : fallback_ids_) {
    if (id >= 0) lengths_[static_cast<size_t>(id)] = 1;
  }
}

// A byte that the vocabulary lacks is dropped, and what stood around it may merge: no place is safe then.
void Bpe::find_cuts() {
  if (std::any_of(byte_ids_.begin(), byte_ids_.end(), [](int32_t id) { return id < 0; })) return;
  cuts_.emplace();
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    if (const auto bytes = spelled_bytes(vocabulary_.text(id))) cuts_->add(*bytes);
  }
}

// Models without a pre-tokenizer (Llama 2) would merge a whole text as one piece. Where no token runs from
// another character into a mark, no merge ever crosses that place, so cutting there changes nothing and
// makes words that the cache knows.
void Bpe::find_marks() {
  const auto mark_id = vocabulary_.find(mark);
  cuts_at_marks_ = mark_id && is_model_token(*mark_id);
  for (int32_t id = 0; cuts_at_marks_ && id < vocabulary_.size(); ++id) {
    const std::string_view token = vocabulary_.text(id);
    size_t marks = 0;
    while (token.substr(marks).starts_with(mark)) marks += mark.size();
    if (token.find(mark, marks) != std::string_view::npos) cuts_at_marks_ = false;
  }
}

void Bpe::set_controls(std::vector<bool> is_control) {
  is_control_ = std::move(is_control);
  control_parts_.clear();
  model_.merges.for_each([&](int32_t left, int32_t right, int32_t result) {
    if (this->is_control(result)) control_parts_.emplace(result, std::pair(left, right));
  });
}

void Bpe::encode(std::string_view piece, bool avoids_controls, BpeState& state, TokenSink out) const {
  const size_t first = out.ids.size();
  encode_freely(piece, state, out);
  if (!avoids_controls) return;
  const bool has_control = std::any_of(out.ids.begin() + static_cast<ptrdiff_t>(first), out.ids.end(),
                                       [&](int32_t id) { return is_control(id); });
  if (!has_control) return;
  out.ids.resize(first);
  out.begins.resize(first);
  encode_apart(piece, state, out);
}

void Bpe::encode_freely(std::string_view piece, BpeState& state, TokenSink out) const {
  const bool may_be_whole = model_.ignores_merges;
  if (const auto known = state.cache.find(piece, may_be_whole); !known.empty()) {
    return add_lengthwise(known, 0, out);
  }
  size_t end = word_end(piece, 0);
  if (end == piece.size()) return encode_new_word(piece, 0, may_be_whole, state, out);
  if (const auto id = may_be_whole ? whole_word(piece) : std::nullopt) {
    out.ids.push_back(*id);
    out.begins.push_back(0);
    return;
  }
  for (size_t begin = 0; begin < piece.size(); begin = end) {
    end = word_end(piece, begin);
    encode_word(piece.substr(begin, end - begin), static_cast<uint32_t>(begin), state, out);
  }
}

size_t Bpe::word_end(std::string_view piece, size_t begin) const {
  if (cuts_) return cuts_->word_end(piece, begin);
  if (!cuts_at_marks_) return piece.size();
  while (piece.substr(begin).starts_with(mark)) begin += mark.size();
  return std::min(piece.find(mark, begin), piece.size());
}

void Bpe::encode_word(std::string_view word, uint32_t begin, BpeState& state, TokenSink out) const {
  const auto known = state.cache.find(word, false);
  if (known.empty()) return encode_new_word(word, begin, false, state, out);
  add_lengthwise(known, begin, out);
}

void Bpe::encode_new_word(std::string_view word, uint32_t begin, bool may_be_whole, BpeState& state,
                          TokenSink out) const {
  const size_t first = out.ids.size();
  if (const auto id = may_be_whole ? whole_word(word) : std::nullopt) {
    out.ids.push_back(*id);
    out.begins.push_back(begin);
  } else {
    merge_word(word, begin, state, out);
  }
  if (word.size() > WordCache::max_word) return;
  // Begins are worked out from lengths: a word with an unknown or dropped character cannot be kept.
  const std::span<const int32_t> ids = std::span(out.ids).subspan(first);
  size_t length = 0;
  for (const int32_t id : ids) length += lengths_[static_cast<size_t>(id)];
  if (length == word.size()) state.cache.keep(word, may_be_whole, ids);
}

void Bpe::add_lengthwise(std::span<const int32_t> ids, uint32_t begin, TokenSink out) const {
  for (const int32_t id : ids) {
    out.ids.push_back(id);
    out.begins.push_back(begin);
    begin += lengths_[static_cast<size_t>(id)];
  }
}

std::optional<int32_t> Bpe::whole_word(std::string_view word) const {
  if (word.size() > longest_) return std::nullopt;
  std::string spelled;
  if (model_.is_byte_level) {
    for (const char byte : word) append_spelled(static_cast<uint8_t>(byte), spelled);
  }
  const auto id = vocabulary_.find(model_.is_byte_level ? spelled : word);
  return id && is_model_token(*id) ? id : std::nullopt;
}

void Bpe::merge_word(std::string_view word, uint32_t begin, BpeState& state, TokenSink out) const {
  state.symbols.clear();
  first_symbols(word, state.symbols);
  state.merger.run(model_.merges, state.symbols);
  for (const Symbol& symbol : state.symbols) {
    out.ids.push_back(symbol.id);
    out.begins.push_back(begin + symbol.begin);
  }
}

void Bpe::encode_apart(std::string_view piece, BpeState& state, TokenSink out) const {
  std::vector<int32_t> ids;
  std::vector<uint32_t> begins;
  merge_word(piece, 0, state, {ids, begins});
  for (size_t i = 0; i < ids.size(); ++i) add_parts(ids[i], begins[i], out);
}

void Bpe::add_parts(int32_t id, uint32_t begin, TokenSink out) const {
  const auto parts = is_control(id) ? control_parts_.find(id) : control_parts_.end();
  if (parts == control_parts_.end()) {
    out.ids.push_back(id);
    out.begins.push_back(begin);
    return;
  }
  const auto [left, right] = parts->second;
  add_parts(left, begin, out);
  add_parts(right, begin + lengths_[static_cast<size_t>(left)], out);
}

void Bpe::first_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
  constexpr uint32_t none = UINT32_MAX;
  uint32_t unknown_begin = none;
  const auto flush_unknown = [&] {
    if (unknown_begin != none) symbols.push_back({*model_.unknown_id, unknown_begin});
    unknown_begin = none;
  };
  for (size_t i = 0; i < word.size();) {
    const size_t size = model_.is_byte_level ? 1 : first_code_point(word.substr(i)).size;
    const auto begin = static_cast<uint32_t>(i);
    const std::string_view character = word.substr(i, size);
    i += size;
    if (const auto id = character_token(character)) {
      flush_unknown();
      symbols.push_back({*id, begin});
    } else if (add_fallback(character, begin, symbols)) {
      // As in Hugging Face's tokenizers an unknown token under way stays so, behind the bytes.
    } else if (model_.unknown_id) {
      if (!model_.fuses_unknown) flush_unknown();
      if (unknown_begin == none) unknown_begin = begin;
    }  // else the character is dropped: the vocabulary has no way to say it
  }
  flush_unknown();
}

std::optional<int32_t> Bpe::character_token(std::string_view character) const {
  if (character.size() == 1) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(character[0])];
    return id < 0 ? std::nullopt : std::optional(id);
  }
  const auto id = vocabulary_.find(character);
  return id && is_model_token(*id) ? id : std::nullopt;
}

bool Bpe::add_fallback(std::string_view character, uint32_t begin, std::vector<Symbol>& symbols) const {
  const bool has_all = std::all_of(character.begin(), character.end(),
                                   [&](char byte) { return fallback_ids_[static_cast<uint8_t>(byte)] >= 0; });
  if (!has_all) return false;
  for (const char byte : character) symbols.push_back({fallback_ids_[static_cast<uint8_t>(byte)], begin++});
  return true;
}

}  // namespace duoka::data
