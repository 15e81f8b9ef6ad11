// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/regex.h"
#include "data/tokenizer/unicode.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

/// One pass over the pattern. Only what the two syntaxes read differently is touched.
class Translator {
 public:
  Translator(std::string_view pattern, const std::string& origin) : pattern_(pattern), origin_(origin) {}

  std::string run() {
    while (i_ < pattern_.size()) {
      const char c = pattern_[i_];
      if (c == '\\') {
        escape(false);
      } else if (c == '[') {
        character_class();
      } else if (c == '{') {
        interval();
      } else {
        out_.push_back(pattern_[i_++]);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw FormatError(text(origin_, ": the pattern ", pattern_, " uses ", what,
                           ", which duoka's regular expressions do not have; the tokenizer cannot be used"));
  }

  char peek(size_t ahead) const { return i_ + ahead < pattern_.size() ? pattern_[i_ + ahead] : '\0'; }

  void take(size_t count) {
    out_.append(pattern_.substr(i_, count));
    i_ += count;
  }

  void put_class(const char* members, bool is_negated, bool in_class) {
    if (!in_class) out_.append(is_negated ? "[^" : "[");
    out_.append(members);
    if (!in_class) out_.push_back(']');
    i_ += 2;
  }

  void escape(bool in_class) {
    const char c = peek(1);
    if (c == 's') return put_class(space_class, false, in_class);
    if (c == 'S')
      return in_class ? put_class(not_space_class, false, true) : put_class(space_class, true, false);
    if (c == 'w') return put_class(word_class, false, in_class);
    if (c == 'W') {
      if (in_class) refuse("\\W inside a class");
      return put_class(word_class, true, false);
    }
    if (c == 'h') return put_class("0-9a-fA-F", false, in_class);  // a hexadecimal digit, not a blank
    if (c == 'H') refuse("\\H");
    if (c == 'u') {  // \uHHHH
      out_.append("\\x{").append(pattern_.substr(i_ + 2, 4)).append("}");
      i_ = std::min(i_ + 6, pattern_.size());
      return;
    }
    const bool has_braces = (c == 'p' || c == 'P' || c == 'x' || c == 'k' || c == 'g') && peek(2) == '{';
    const size_t close = has_braces ? pattern_.find('}', i_) : std::string_view::npos;
    take(close == std::string_view::npos ? std::min<size_t>(2, pattern_.size() - i_) : close + 1 - i_);
  }

  void character_class() {
    take(1);
    if (peek(0) == '^') take(1);
    if (peek(0) == ']') refuse("an empty class or an unescaped ] in front");
    while (i_ < pattern_.size() && pattern_[i_] != ']') {
      if (pattern_[i_] == '\\') {
        escape(true);
      } else if (pattern_[i_] == '[' && peek(1) == ':') {
        const size_t close = pattern_.find(":]", i_);
        if (close == std::string_view::npos) refuse("an unfinished [: … :]");
        take(close + 2 - i_);
      } else if (pattern_[i_] == '[') {
        refuse("a class inside a class");
      } else if (pattern_[i_] == '&' && peek(1) == '&') {
        refuse("an intersection of classes (&&)");
      } else {
        take(1);
      }
    }
    if (i_ < pattern_.size()) take(1);
  }

  /// x{1,3}+ repeats the repetition in Oniguruma and is possessive in PCRE2.
  void interval() {
    const size_t close = pattern_.find('}', i_);
    if (close != std::string_view::npos && close + 1 < pattern_.size() && pattern_[close + 1] == '+') {
      refuse("{…}+");
    }
    take(1);
  }

  std::string_view pattern_;
  const std::string& origin_;
  std::string out_;
  size_t i_ = 0;
};

}  // namespace

std::string translate_pattern(std::string_view pattern, const std::string& origin) {
  return Translator(pattern, origin).run();
}

}  // namespace duoka::data
