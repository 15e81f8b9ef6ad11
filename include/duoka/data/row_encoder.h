// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "duoka/data/format.h"
#include "duoka/data/render.h"
#include "duoka/data/token_cache.h"

namespace duoka::data {

class ChatTemplate;
class Tokenizer;

struct EncodeRules {
  Stage stage = Stage::sft;
  /// Longest row, in tokens; at least 2. Longer rows are cut on the right.
  int64_t cutoff_len = 2048;
  /// For Stage::pt: a longer text is cut into pieces of cutoff_len tokens and nothing is lost. As in
  /// LLaMA-Factory this goes with `packing`; but pieces of two texts are never joined to one segment.
  bool is_chunking = false;
  RenderOptions render;  ///< Stage::sft only.

  /// All of it that decides the tokens, as one text.
  std::string identity() const;
};

/// Turns what rows say into tokens. Immutable; encode() may be called from many threads at once.
class RowEncoder {
 public:
  /// `chat_template` may be null for Stage::pt. Both must outlive this object.
  /// Throws ConfigError when cutoff_len is under 2, or a template or (Stage::pt) an EOS token is missing.
  RowEncoder(const Tokenizer& tokenizer, const ChatTemplate* chat_template, EncodeRules rules);

  /// The tokens of one row after the cut, or a refusal: "prompt fills the cutoff …" for a row that the
  /// cut leaves without a trained token. Sets no line. Throws DataError with a reason where the template
  /// or tokenizer refuses the row.
  ///
  /// Stage::pt: the tokenizer's own special tokens, the text, EOS where the tokenizer adds none; every
  /// token is trained but the first, which nothing predicts. A BOS typed at the text's start counts as the
  /// tokenizer's.
  RowOutcome encode(const RowContent& content) const;

  /// All that decides the tokens besides the row, as one text; part of the token cache's key.
  std::string identity() const;
  const EncodeRules& rules() const { return rules_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  EncodedRow encode_text(const std::string& text) const;

  const Tokenizer* tokenizer_;
  const ChatTemplate* template_;
  EncodeRules rules_;
};

/// A RowEncoder that is made when rows have to become tokens, and what tells without it whether it would be
/// the same one as earlier.
struct EncoderSource {
  std::vector<std::filesystem::path> files;  ///< That it is made from, with those that may be there one day.
  std::string identity;  ///< All else that decides the tokens besides the row, as one text.
  std::function<const RowEncoder&()> open;  ///< The encoder lives as long as what this refers to.
};

}  // namespace duoka::data
