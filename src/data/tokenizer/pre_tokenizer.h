// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/aligned_text.h"
#include "data/tokenizer/regex.h"
#include "duoka/io/json.h"

namespace duoka::data {

/// A stretch of a text that tokens do not cross, in bytes, never empty.
struct TextPiece {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// A section of text (what lies between two added tokens) and how it is cut.
struct Section {
  AlignedText& text;
  std::vector<TextPiece>& pieces;  ///< Ascending; gaps are what a step removed.
  std::vector<TextPiece>& spare;   ///< Room for a step's result.
  MatchState& state;

  std::string_view view(const TextPiece& piece) const {
    return text.view().substr(piece.begin, piece.end - piece.begin);
  }
};

class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  virtual void apply(Section& section) const = 0;
};

/// The "pre_tokenizer" of a tokenizer.json: a chain of steps.
class PreTokenizer {
 public:
  /// `json` null or a JSON null: none. Throws FormatError for an unknown type.
  PreTokenizer(const io::Json* json, const std::string& origin);

  /// Cuts the section; its pieces are what the model's vocabulary is applied to.
  void apply(Section& section) const;
  /// Whether pieces are raw bytes that the vocabulary spells in the byte alphabet.
  bool is_byte_level() const { return is_byte_level_; }
  bool is_empty() const { return steps_.empty(); }

 private:
  std::vector<std::unique_ptr<const PreTokenizerStep>> steps_;
  bool is_byte_level_ = false;
};

/// What becomes of a match that a text is split at.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// One part of a piece while it is split, adjacent to the next.
struct Part {
  TextPiece piece;
  bool is_match = false;
};

/// Appends to `out` what `behavior` makes of `parts`, which cover a piece without gaps.
void append_split(const std::vector<Part>& parts, SplitBehavior behavior, std::vector<TextPiece>& out);
/// "Isolated", "MergedWithPrevious", … Throws FormatError for another name.
SplitBehavior split_behavior(std::string_view name, const std::string& origin);

/// Reads one component that is not a Sequence. `is_last`: no step follows (a ByteLevel that is not last has
/// to respell the text for the steps after it).
std::unique_ptr<const PreTokenizerStep> make_pre_tokenizer_step(const io::Json& json, bool is_last,
                                                                const std::string& origin);
std::unique_ptr<const PreTokenizerStep> make_byte_level_step(const io::Json& json, bool is_last,
                                                             const std::string& origin);
std::unique_ptr<const PreTokenizerStep> make_metaspace_step(const io::Json& json, const std::string& origin);
/// Turns text in the byte alphabet back into bytes.
std::unique_ptr<const PreTokenizerStep> make_unspell_step();

}  // namespace duoka::data
