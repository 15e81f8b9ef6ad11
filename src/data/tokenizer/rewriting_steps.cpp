// SPDX-License-Identifier: Apache-2.0
// Pre-tokenizers that change the text as well as cut it: ByteLevel and Metaspace.
#include <optional>

#include <nlohmann/json.hpp>

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/unicode.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

// Words with the space in front, after OpenAI's GPT-2 encoder.py.
constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Rewrites the text piece by piece: `rewrite` puts the changed piece; pieces follow. Gaps are dropped.
template <class RewritePiece>
void rewrite_each(Section& section, const RewritePiece& rewrite) {
  Rewrite out(section.text);
  section.spare.clear();
  for (const TextPiece& piece : section.pieces) {
    const size_t begin = out.size();
    rewrite(piece, section.view(piece), out);
    section.spare.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(out.size())});
  }
  out.finish();
  section.pieces.swap(section.spare);
}

class ByteLevelStep final : public PreTokenizerStep {
 public:
  ByteLevelStep(bool adds_space, bool uses_regex, bool spells, const std::string& origin)
      : adds_space_(adds_space), spells_(spells) {
    if (uses_regex) regex_.emplace(gpt2_pattern, origin);
  }

  void apply(Section& section) const override {
    if (adds_space_) add_space(section);
    if (regex_) split(section);
    if (spells_) spell(section);
  }

 private:
  static void add_space(Section& section) {
    bool is_needed = false;
    for (const TextPiece& piece : section.pieces) is_needed |= section.view(piece).front() != ' ';
    if (!is_needed) return;
    rewrite_each(section, [](const TextPiece& piece, std::string_view view, Rewrite& out) {
      if (view.front() != ' ') out.put(" ", piece.begin);
      out.keep(piece.begin, piece.end);
    });
  }

  void split(Section& section) const {
    section.spare.clear();
    for (const TextPiece& piece : section.pieces) {
      const std::string_view view = section.view(piece);
      size_t done = 0;
      // Every character is in some match, so the next one begins where this one ends.
      while (done < view.size()) {
        const auto match = regex_->find(view, done, section.state);
        const size_t end = match ? match->end : view.size();
        section.spare.push_back(
            {piece.begin + static_cast<uint32_t>(done), piece.begin + static_cast<uint32_t>(end)});
        done = end;
      }
    }
    section.pieces.swap(section.spare);
  }

  static void spell(Section& section) {
    rewrite_each(section, [](const TextPiece& piece, std::string_view view, Rewrite& out) {
      std::string character;
      for (size_t i = 0; i < view.size(); ++i) {
        character.clear();
        append_spelled(static_cast<uint8_t>(view[i]), character);
        out.put(character, piece.begin + i);
      }
    });
  }

  bool adds_space_;
  bool spells_;
  std::optional<Regex> regex_;
};

class UnspellStep final : public PreTokenizerStep {
 public:
  void apply(Section& section) const override {
    rewrite_each(section, [](const TextPiece& piece, std::string_view view, Rewrite& out) {
      for (size_t i = 0; i < view.size();) {
        const size_t size = first_code_point(view.substr(i)).size;
        out.put(*spelled_bytes(view.substr(i, size)), piece.begin + i);
        i += size;
      }
    });
  }
};

enum class PrependScheme { always, first, never };

/// Spaces become `mark` ("▁"), one is put in front by the scheme, and text is cut before each.
class MetaspaceStep final : public PreTokenizerStep {
 public:
  MetaspaceStep(std::string mark, PrependScheme scheme, bool splits)
      : mark_(std::move(mark)), scheme_(scheme), splits_(splits) {}

  void apply(Section& section) const override {
    const AlignedText& original = section.text;
    rewrite_each(section, [&](const TextPiece& piece, std::string_view view, Rewrite& out) {
      const bool is_marked = view.front() == ' ' || view.starts_with(mark_);
      const bool may_prepend = scheme_ == PrependScheme::always ||
                               (scheme_ == PrependScheme::first && original.origin(piece.begin) == 0);
      if (may_prepend && !is_marked) out.put(mark_, piece.begin);
      replace_spaces(piece, view, out);
    });
    if (splits_) split(section);
  }

 private:
  void replace_spaces(const TextPiece& piece, std::string_view view, Rewrite& out) const {
    size_t done = 0;
    for (size_t i = 0; i < view.size(); ++i) {
      if (view[i] != ' ') continue;
      out.keep(piece.begin + done, piece.begin + i);
      out.put(mark_, piece.begin + i);
      done = i + 1;
    }
    out.keep(piece.begin + done, piece.end);
  }

  void split(Section& section) const {
    section.spare.clear();
    for (const TextPiece& piece : section.pieces) {
      const std::string_view view = section.view(piece);
      size_t done = 0;
      while (done < view.size()) {
        // A mark goes with what follows it, a mark before another mark stands alone.
        const size_t next =
            view.find(mark_, view.substr(done).starts_with(mark_) ? done + mark_.size() : done);
        const size_t end = std::min(next, view.size());
        section.spare.push_back(
            {piece.begin + static_cast<uint32_t>(done), piece.begin + static_cast<uint32_t>(end)});
        done = end;
      }
    }
    section.pieces.swap(section.spare);
  }

  std::string mark_;
  PrependScheme scheme_;
  bool splits_;
};

PrependScheme prepend_scheme(const io::Json& json, const std::string& origin) {
  const auto name = io::optional_string(json, "prepend_scheme", origin);
  if (!name) {  // files written before the scheme existed
    const bool adds = io::optional_bool(json, "add_prefix_space", origin).value_or(true);
    return adds ? PrependScheme::always : PrependScheme::never;
  }
  if (*name == "always") return PrependScheme::always;
  if (*name == "first") return PrependScheme::first;
  if (*name == "never") return PrependScheme::never;
  throw FormatError(text(origin, ": prepend_scheme ", *name, " is unknown; wanted always, first or never"));
}

}  // namespace

std::unique_ptr<const PreTokenizerStep> make_byte_level_step(const io::Json& json, bool is_last,
                                                             const std::string& origin) {
  return std::make_unique<ByteLevelStep>(io::optional_bool(json, "add_prefix_space", origin).value_or(true),
                                         io::optional_bool(json, "use_regex", origin).value_or(true),
                                         !is_last, origin);
}

std::unique_ptr<const PreTokenizerStep> make_unspell_step() { return std::make_unique<UnspellStep>(); }

std::unique_ptr<const PreTokenizerStep> make_metaspace_step(const io::Json& json, const std::string& origin) {
  const std::string mark = io::require_string(json, "replacement", origin);
  if (mark.empty())
    throw FormatError(text(origin, ": Metaspace has an empty replacement; wanted one character"));
  return std::make_unique<MetaspaceStep>(mark, prepend_scheme(json, origin),
                                         io::optional_bool(json, "split", origin).value_or(true));
}

}  // namespace duoka::data
