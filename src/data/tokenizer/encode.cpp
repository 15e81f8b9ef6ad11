// SPDX-License-Identifier: Apache-2.0
// Tokenizer::encode(): the text is cut at added tokens, what lies between is normalised, cut into pieces and
// encoded.
#include <algorithm>
#include <limits>

#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

/// Rewriting may make a text three times as long (a space becomes "▁"); offsets have 32 bits.
constexpr size_t max_text_bytes = std::numeric_limits<uint32_t>::max() / 4;

void replace_invalid(AlignedText& text) {
  const std::string_view view = text.view();
  size_t valid = valid_prefix(view);
  if (valid == view.size()) return;
  Rewrite out(text);
  size_t at = 0;
  while (true) {
    out.keep(at, at + valid);
    at += valid;
    if (at == view.size()) break;
    size_t invalid = 0;
    sequence_length(view.substr(at), &invalid);
    out.put("\xEF\xBF\xBD", at);
    at += invalid;
    valid = valid_prefix(view.substr(at));
  }
  out.finish();
}

}  // namespace

/// One call of encode().
class EncodeRun {
 public:
  EncodeRun(const Tokenizer::Impl& impl, std::span<const TextRange> literal, EncodeState& state,
            Encoding& out)
      : impl_(impl), literal_(literal), state_(state), out_(out) {}

  void whole(const AlignedText& text) {
    at_tokens(impl_.raw_tokens, text, [&](size_t begin, size_t end) {
      AlignedText between(text, begin, end);
      if (impl_.normalizer) impl_.normalizer->apply(between, state_.match);
      at_tokens(impl_.normalized_tokens, between, [&](size_t from, size_t to) {
        AlignedText section(between, from, to);
        cut_and_encode(section);
      });
    });
  }

 private:
  /// Adds the tokens that `finder` finds and hands what lies between to `rest(begin, end)`.
  template <class Rest>
  void at_tokens(const TokenFinder& finder, const AlignedText& text, const Rest& rest) {
    const size_t size = text.view().size();
    size_t done = 0;
    if (!finder.is_empty()) {
      const auto may_stand = [&](size_t begin, size_t end) { return !is_literal(text, begin, end); };
      for (const TokenFinder::Found& found : finder.find_all(text.view(), may_stand)) {
        if (found.begin > done) rest(done, found.begin);
        add(found.token->id, text.origin(found.begin));
        done = found.end;
      }
    }
    if (done < size) rest(done, size);
  }

  /// Whether bytes [begin, end) of `text`, not empty, come from where a user typed.
  bool is_literal(const AlignedText& text, size_t begin, size_t end) const {
    if (literal_.empty()) return false;
    const size_t first = text.origin(begin);
    const size_t last = text.origin(end - 1);
    const auto range = std::upper_bound(literal_.begin(), literal_.end(), first,
                                        [](size_t at, const TextRange& other) { return at < other.end; });
    return range != literal_.end() && range->begin <= last && range->begin < range->end;
  }

  void cut_and_encode(AlignedText& text) {
    Section section{text, state_.pieces, state_.spare, state_.match};
    impl_.pre_tokenizer.apply(section);
    for (const TextPiece& piece : section.pieces) {
      const size_t first = out_.ids.size();
      impl_.bpe->encode(section.view(piece), is_literal(text, piece.begin, piece.end), state_.bpe,
                        {out_.ids, out_.begins});
      for (size_t i = first; i < out_.begins.size(); ++i) {
        out_.begins[i] = not_before_last(i, text.origin(piece.begin + out_.begins[i]));
      }
    }
  }

  void add(int32_t id, uint32_t begin) {
    out_.ids.push_back(id);
    out_.begins.push_back(not_before_last(out_.begins.size(), begin));
  }

  /// Normalisation may swap characters; what was promised of `begins` holds all the same.
  uint32_t not_before_last(size_t i, uint32_t begin) const {
    return i == 0 ? begin : std::max(begin, out_.begins[i - 1]);
  }

  const Tokenizer::Impl& impl_;
  std::span<const TextRange> literal_;
  EncodeState& state_;
  Encoding& out_;
};

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > max_text_bytes) {
    throw DataError(duoka::text("a text of ", bytes_text(static_cast<int64_t>(text.size())),
                                " cannot be tokenised at once; wanted ",
                                bytes_text(static_cast<int64_t>(max_text_bytes)), " at most: cut it"));
  }
  Encoding out;
  out.ids.reserve(text.size() / 3 + 4);
  out.begins.reserve(text.size() / 3 + 4);
  const auto surround = [&](const std::vector<int32_t>& ids, size_t at) {
    if (!options.add_special_tokens) return;
    for (const int32_t id : ids) {
      out.ids.push_back(id);
      out.begins.push_back(static_cast<uint32_t>(at));
    }
  };
  surround(impl_->around.before, 0);
  {
    const StatePool::Lease state(impl_->states);
    AlignedText whole(text);
    replace_invalid(whole);
    EncodeRun(*impl_, options.literal, *state, out).whole(whole);
  }
  surround(impl_->around.behind, text.size());
  return out;
}

}  // namespace duoka::data
