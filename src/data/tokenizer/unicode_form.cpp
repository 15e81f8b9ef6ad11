// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>

#include <utf8proc.h>

#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/unicode.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

struct CodePointRange {
  char32_t low;
  char32_t high;
};

// Characters with a decomposition or a combining class that came after Unicode 9, the version of the tables
// that Hugging Face's tokenizers normalises by: to it they are starters that never change. Models were
// trained on what it did, so they stay as they are here too. Found by comparing it with Python's unicodedata.
constexpr CodePointRange younger[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},
    {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},
    {0x10781, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

bool is_younger(char32_t c) {
  const auto* range =
      std::lower_bound(std::begin(younger), std::end(younger), c,
                       [](const CodePointRange& other, char32_t at) { return other.high < at; });
  return range != std::end(younger) && range->low <= c;
}

/// A character before which a text can be cut and its parts normalised apart, in every form: it is a starter
/// that composes with nothing in front. Not all such characters, but the common ones. None of them changes
/// in NFC as long as none that is missing here follows.
bool starts_segment(char32_t c) {
  return c < 0x300 || (c >= 0x0400 && c < 0x0483) || (c >= 0x2010 && c < 0x2028) ||
         (c >= 0x3000 && c < 0x302A) || (c >= 0x3041 && c < 0x3097) || (c >= 0x30A1 && c < 0x30FB) ||
         (c >= 0x3400 && c < 0xA000) || (c >= 0xAC00 && c < 0xD7A4) || (c >= 0xFF01 && c < 0xFF9E) ||
         (c >= 0x1F300 && c < 0x1FB00);
}

/// One of Unicode's normal forms, by utf8proc, segment by segment so that origins stay near.
class UnicodeForm final : public Normalizer {
 public:
  UnicodeForm(utf8proc_option_t composition, bool is_compatible)
      : options_(static_cast<utf8proc_option_t>(UTF8PROC_STABLE | composition |
                                                (is_compatible ? UTF8PROC_COMPAT : 0))),
        is_nfc_(composition == UTF8PROC_COMPOSE && !is_compatible) {}

  void apply(AlignedText& text, MatchState&) const override {
    const std::string_view view = text.view();
    size_t odd = stable_end(view, 0);
    if (odd == view.size()) return;
    Rewrite out(text);
    bool is_changed = false;
    size_t at = 0;
    while (odd < view.size()) {
      // The character in front may combine with the odd one.
      const size_t begin = odd == at ? at : odd - last_code_point(view.substr(0, odd)).size;
      out.keep(at, begin);
      at = end_of_segment(view, begin);
      is_changed |= rewrite_segment(view, begin, at, out);
      odd = stable_end(view, at);
    }
    out.keep(at, view.size());
    if (is_changed) out.finish();
  }

 private:
  /// End of the characters from byte `begin` on that do not change, but for the last one, which may combine.
  size_t stable_end(std::string_view view, size_t begin) const {
    while (begin < view.size()) {
      const CodePoint c = first_code_point(view.substr(begin));
      if (!is_stable(c.value)) break;
      begin += c.size;
    }
    return begin;
  }

  /// U+00A0 is the first character with a compatibility mapping, U+00C0 the first with a canonical one.
  bool is_stable(char32_t c) const {
    return c < 0xA0 || (c >= 0x3400 && c < 0xA000) || (is_nfc_ && starts_segment(c));
  }

  static size_t end_of_segment(std::string_view view, size_t at) {
    const CodePoint first = first_code_point(view.substr(at));
    at += first.size;
    if (is_younger(first.value)) return at;
    while (at < view.size()) {
      const CodePoint c = first_code_point(view.substr(at));
      if (starts_segment(c.value) || is_younger(c.value)) break;
      at += c.size;
    }
    return at;
  }

  /// Returns whether the segment changed.
  bool rewrite_segment(std::string_view view, size_t begin, size_t end, Rewrite& out) const {
    const std::string_view old = view.substr(begin, end - begin);
    if (old.size() == 1 || is_younger(first_code_point(old).value)) {
      out.keep(begin, end);
      return false;
    }
    const std::string normal = map(old);
    size_t same = 0;
    while (same < old.size() && same < normal.size() && old[same] == normal[same]) ++same;
    out.keep(begin, begin + same);
    if (same == old.size() && same == normal.size()) return false;
    // Text that only moved is matched from the right; what lies between comes from where the change began.
    size_t tail = 0;
    while (tail < old.size() - same && tail < normal.size() - same &&
           old[old.size() - 1 - tail] == normal[normal.size() - 1 - tail]) {
      ++tail;
    }
    out.put(std::string_view(normal).substr(same, normal.size() - same - tail), begin + same);
    out.keep(end - tail, end);
    return true;
  }

  std::string map(std::string_view segment) const {
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(segment.data()),
                     static_cast<utf8proc_ssize_t>(segment.size()), &mapped, options_);
    if (size < 0) throw std::bad_alloc();  // the text is valid UTF-8, so memory is all that can fail
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
    return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(size)};
  }

  utf8proc_option_t options_;
  bool is_nfc_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_unicode_form(std::string_view form) {
  const auto composition = form.ends_with('C') ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  return std::make_unique<UnicodeForm>(composition, form.size() == 4);
}

}  // namespace duoka::data
