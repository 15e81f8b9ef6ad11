// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/pre_tokenizer.h"

#include <functional>
#include <optional>

#include <nlohmann/json.hpp>

#include "data/tokenizer/pattern.h"
#include "data/tokenizer/unicode.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

TextPiece shifted(const TextPiece& base, size_t begin, size_t end) {
  return {base.begin + static_cast<uint32_t>(begin), base.begin + static_cast<uint32_t>(end)};
}

/// Replaces each piece by what `cut` appends for it.
template <class Cut>
void split_each(Section& section, const Cut& cut) {
  section.spare.clear();
  for (const TextPiece& piece : section.pieces) cut(piece, section.view(piece), section.spare);
  section.pieces.swap(section.spare);
}

/// Split, at a pattern.
class PatternSplit final : public PreTokenizerStep {
 public:
  PatternSplit(Pattern pattern, SplitBehavior behavior, bool is_inverted)
      : pattern_(std::move(pattern)), behavior_(behavior), is_inverted_(is_inverted) {}

  void apply(Section& section) const override {
    std::vector<Part> parts;
    split_each(section, [&](const TextPiece& piece, std::string_view view, std::vector<TextPiece>& out) {
      if (behavior_ == SplitBehavior::isolated) return isolate(piece, view, section.state, out);
      parts.clear();
      size_t done = 0;
      while (const auto match = pattern_.find(view, done, section.state)) {
        if (match->begin > done) parts.push_back({shifted(piece, done, match->begin), is_inverted_});
        parts.push_back({shifted(piece, match->begin, match->end), !is_inverted_});
        done = match->end;
      }
      if (done < view.size()) parts.push_back({shifted(piece, done, view.size()), is_inverted_});
      append_split(parts, behavior_, out);
    });
  }

 private:
  /// The way of nearly all models, without the detour over parts.
  void isolate(const TextPiece& piece, std::string_view view, MatchState& state,
               std::vector<TextPiece>& out) const {
    size_t done = 0;
    while (const auto match = pattern_.find(view, done, state)) {
      if (match->begin > done) out.push_back(shifted(piece, done, match->begin));
      out.push_back(shifted(piece, match->begin, match->end));
      done = match->end;
    }
    if (done < view.size()) out.push_back(shifted(piece, done, view.size()));
  }

  Pattern pattern_;
  SplitBehavior behavior_;
  bool is_inverted_;
};

/// Digits, Punctuation, WhitespaceSplit: at characters of a kind.
class CharacterSplit final : public PreTokenizerStep {
 public:
  CharacterSplit(bool (*is_kind)(char32_t), SplitBehavior behavior)
      : is_kind_(is_kind), behavior_(behavior) {}

  void apply(Section& section) const override {
    std::vector<Part> parts;
    split_each(section, [&](const TextPiece& piece, std::string_view view, std::vector<TextPiece>& out) {
      parts.clear();
      size_t done = 0;
      for (size_t i = 0; i < view.size();) {
        const CodePoint c = first_code_point(view.substr(i));
        if (is_kind_(c.value)) {
          if (i > done) parts.push_back({shifted(piece, done, i), false});
          parts.push_back({shifted(piece, i, i + c.size), true});
          done = i + c.size;
        }
        i += c.size;
      }
      if (done < view.size()) parts.push_back({shifted(piece, done, view.size()), false});
      append_split(parts, behavior_, out);
    });
  }

 private:
  bool (*is_kind_)(char32_t);
  SplitBehavior behavior_;
};

/// Whitespace: words and runs of other characters; white space is removed.
class WordSplit final : public PreTokenizerStep {
 public:
  void apply(Section& section) const override {
    split_each(section, [](const TextPiece& piece, std::string_view view, std::vector<TextPiece>& out) {
      enum class Kind { space, word, other };
      Kind kind = Kind::space;
      size_t begin = 0;
      for (size_t i = 0; i < view.size();) {
        const CodePoint c = first_code_point(view.substr(i));
        const Kind next = is_word(c.value) ? Kind::word : is_space(c.value) ? Kind::space : Kind::other;
        if (next != kind) {
          if (kind != Kind::space) out.push_back(shifted(piece, begin, i));
          begin = i;
          kind = next;
        }
        i += c.size;
      }
      if (kind != Kind::space) out.push_back(shifted(piece, begin, view.size()));
    });
  }
};

void flatten(const io::Json& json, const std::string& origin, std::vector<const io::Json*>& out) {
  if (io::require_string(json, "type", origin) != "Sequence") return out.push_back(&json);
  for (const io::Json& part : io::require_array(json, "pretokenizers", origin)) flatten(part, origin, out);
}

}  // namespace

std::unique_ptr<const PreTokenizerStep> make_pre_tokenizer_step(const io::Json& json, bool is_last,
                                                                const std::string& origin) {
  const std::string type = io::require_string(json, "type", origin);
  if (type == "ByteLevel") return make_byte_level_step(json, is_last, origin);
  if (type == "Metaspace") return make_metaspace_step(json, origin);
  if (type == "Split") {
    return std::make_unique<PatternSplit>(
        Pattern(json, origin), split_behavior(io::require_string(json, "behavior", origin), origin),
        io::optional_bool(json, "invert", origin).value_or(false));
  }
  if (type == "Digits") {
    const bool is_individual = io::optional_bool(json, "individual_digits", origin).value_or(false);
    return std::make_unique<CharacterSplit>(
        &is_numeric, is_individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
  }
  if (type == "Punctuation") {
    const std::string behavior = io::optional_string(json, "behavior", origin).value_or("Isolated");
    return std::make_unique<CharacterSplit>(&is_punctuation, split_behavior(behavior, origin));
  }
  if (type == "WhitespaceSplit") return std::make_unique<CharacterSplit>(&is_space, SplitBehavior::removed);
  if (type == "Whitespace") return std::make_unique<WordSplit>();
  throw FormatError(text(origin, ": pre-tokenizer ", type,
                         " is not supported; supported are ByteLevel, Split, Digits, Punctuation, Metaspace, "
                         "Whitespace, WhitespaceSplit and Sequence"));
}

PreTokenizer::PreTokenizer(const io::Json* json, const std::string& origin) {
  if (json == nullptr || json->is_null()) return;
  std::vector<const io::Json*> parts;
  flatten(*json, origin, parts);
  bool is_spelled = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    const std::string type = io::require_string(*parts[i], "type", origin);
    if (is_spelled && type == "Metaspace") {
      throw FormatError(text(origin, ": pre-tokenizer Metaspace after ByteLevel is not supported"));
    }
    if (type == "ByteLevel") {
      if (is_byte_level_)
        throw FormatError(text(origin, ": two ByteLevel pre-tokenizers; wanted one at most"));
      is_byte_level_ = true;
      is_spelled = !is_last;
    }
    steps_.push_back(make_pre_tokenizer_step(*parts[i], is_last, origin));
  }
  if (is_spelled) steps_.push_back(make_unspell_step());
}

void PreTokenizer::apply(Section& section) const {
  section.pieces.clear();
  if (section.text.view().empty()) return;
  section.pieces.push_back({0, static_cast<uint32_t>(section.text.view().size())});
  for (const auto& step : steps_) step->apply(section);
}

}  // namespace duoka::data
