// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/lexer.h"

#include <algorithm>

#include "data/jinja/numbers.h"
#include "data/jinja/string_literal.h"
#include "data/jinja/unicode.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_char(char c) { return is_name_start(c) || is_digit(c); }

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& origin) : source_(source), origin_(origin) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_until_tag();
    push(Token::Kind::end, "", at_);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& why, size_t at) {
    throw FormatError(text(origin_, ":", line_of(at), ": ", why));
  }

  /// Offsets are asked for in rising order, but for errors.
  int line_of(size_t at) {
    if (at < counted_to_) {
      counted_to_ = 0;
      line_ = 1;
    }
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(counted_to_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    counted_to_ = at;
    return line_;
  }

  void push(Token::Kind kind, std::string value, size_t begin) {
    tokens_.push_back({kind, std::move(value), begin, line_of(begin)});
  }

  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool starts_with(std::string_view what, size_t at) const {
    return source_.compare(at, what.size(), what) == 0;
  }
  size_t skip_space(size_t at) const { return at + leading_bytes(source_.substr(at)); }

  size_t find_tag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string_view::npos; at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() &&
          std::string_view("{%#").find(source_[at + 1]) != std::string_view::npos) {
        return at;
      }
    }
    return source_.size();
  }

  void read_until_tag() {
    const size_t tag = find_tag(at_);
    const char kind = tag < source_.size() ? source_[tag + 1] : '\0';
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    push_data(at_, tag, kind, sign);
    if (kind == '\0') {
      at_ = tag;
      return;
    }
    at_ = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
    if (kind == '#') return skip_comment(tag);
    if (kind == '%' && read_raw(tag)) return;
    const bool is_block = kind == '%';
    push(is_block ? Token::Kind::block_begin : Token::Kind::variable_begin, "", tag);
    read_expression(is_block, tag);
  }

  /// Text before a tag: "-" strips white space before the tag; else lstrip_blocks takes the blanks between
  /// the start of the line and a block or comment, unless "+" forbids it.
  void push_data(size_t begin, size_t end, char tag_kind, char sign) {
    const std::string_view data = source_.substr(begin, end - begin);
    size_t keep = data.size();
    if (tag_kind != '\0' && sign == '-') {
      keep -= trailing_bytes(data);
    } else if ((tag_kind == '%' || tag_kind == '#') && sign != '+') {
      const size_t newline = data.rfind('\n');
      const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      const bool is_line_start = line_start > 0 || begin == 0 || source_[begin - 1] == '\n';
      const std::string_view blanks = data.substr(line_start);
      if (is_line_start && leading_bytes(blanks) == blanks.size()) keep = line_start;
    }
    if (keep > 0) push(Token::Kind::data, std::string(data.substr(0, keep)), begin);
  }

  /// Behind a closing sign: "-" swallows all white space, trim_blocks one newline unless "+".
  void skip_after(char sign, bool trims_newline) {
    if (sign == '-') {
      at_ = skip_space(at_);
    } else if (trims_newline && sign != '+' && peek() == '\n') {
      ++at_;
    }
  }

  void skip_comment(size_t tag) {
    const size_t close = source_.find("#}", at_);
    if (close == std::string_view::npos) fail("a comment {# is never closed", tag);
    const char sign = close > at_ ? source_[close - 1] : '\0';
    at_ = close + 2;
    skip_after(sign, true);
  }

  /// The offset behind "{%- word -%}" at `at`, with its closing sign; npos if something else is there.
  size_t match_word_tag(size_t at, std::string_view word, char& sign) const {
    at = skip_space(at);
    if (!starts_with(word, at)) return std::string_view::npos;
    at = skip_space(at + word.size());
    sign = at < source_.size() ? source_[at] : '\0';
    if (sign == '-' || sign == '+') ++at;
    return starts_with("%}", at) ? at + 2 : std::string_view::npos;
  }

  bool read_raw(size_t tag) {
    char sign = '\0';
    const size_t begin = match_word_tag(at_, "raw", sign);
    if (begin == std::string_view::npos) return false;
    at_ = begin;
    skip_after(sign, false);
    for (size_t close = source_.find("{%", at_); close != std::string_view::npos;
         close = source_.find("{%", close + 2)) {
      const char open_sign = close + 2 < source_.size() ? source_[close + 2] : '\0';
      const size_t word = close + 2 + (open_sign == '-' || open_sign == '+' ? 1 : 0);
      const size_t end = match_word_tag(word, "endraw", sign);
      if (end == std::string_view::npos) continue;
      push_data(at_, close, '%', open_sign);
      at_ = end;
      skip_after(sign, true);
      return true;
    }
    fail("{% raw %} is never closed", tag);
  }

  void read_expression(bool is_block, size_t tag) {
    std::string brackets;
    for (;;) {
      at_ = skip_space(at_);
      if (at_ >= source_.size()) fail(text("a tag ", is_block ? "{%" : "{{", " is never closed"), tag);
      if (brackets.empty() && read_tag_end(is_block)) return;
      read_token(brackets);
    }
  }

  bool read_tag_end(bool is_block) {
    const std::string_view close = is_block ? "%}" : "}}";
    const char sign = peek() == '-' || (is_block && peek() == '+') ? peek() : '\0';
    const size_t at = at_ + (sign ? 1 : 0);
    if (!starts_with(close, at)) return false;
    push(is_block ? Token::Kind::block_end : Token::Kind::variable_end, "", at_);
    at_ = at + 2;
    skip_after(sign, is_block);
    return true;
  }

  void read_token(std::string& brackets) {
    const char c = peek();
    if (is_name_start(c)) return read_name();
    if (is_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_string();
    read_symbol(brackets);
  }

  void read_name() {
    const size_t begin = at_;
    while (is_name_char(peek())) ++at_;
    push(Token::Kind::name, std::string(source_.substr(begin, at_ - begin)), begin);
  }

  void take_digits(std::string& digits) {
    while (is_digit(peek()) || (peek() == '_' && is_digit(peek(1)))) {
      if (peek() != '_') digits += peek();
      ++at_;
    }
  }

  /// 0x1f, 0o17, 0b101: the token's text is the number in decimal.
  bool read_prefixed_number() {
    const char letter = static_cast<char>(peek(1) | 0x20);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (peek() != '0' || base == 0) return false;
    const size_t begin = at_;
    while (is_name_char(peek())) ++at_;
    const std::string_view digits = source_.substr(begin, at_ - begin);
    const auto value = read_int(digits, base);
    if (!value) fail(text("'", digits, "' is no number of base ", base, " that fits into 64 bits"), begin);
    push(Token::Kind::integer, std::to_string(*value), begin);
    return true;
  }

  void read_number() {
    if (read_prefixed_number()) return;
    const size_t begin = at_;
    std::string digits;
    take_digits(digits);
    bool is_float = false;
    // "loop.0.5" is no float: behind a dot, digits are an index.
    const bool is_index = begin > 0 && source_[begin - 1] == '.';
    if (!is_index && peek() == '.' && is_digit(peek(1))) {
      is_float = true;
      digits += '.';
      ++at_;
      take_digits(digits);
    }
    const size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if (!is_index && (peek() == 'e' || peek() == 'E') && is_digit(peek(1 + sign))) {
      is_float = true;
      digits += source_.substr(at_, 1 + sign);
      at_ += 1 + sign;
      take_digits(digits);
    }
    if (!is_float && !is_index && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) {
      fail(text("the whole number ", digits, " begins with 0"), begin);
    }
    push(is_float ? Token::Kind::floating : Token::Kind::integer, std::move(digits), begin);
  }

  void read_string() {
    const size_t begin = at_;
    const char quote = source_[at_++];
    while (at_ < source_.size() && source_[at_] != quote) at_ += source_[at_] == '\\' ? 2 : 1;
    if (at_ >= source_.size()) fail("a string is never closed", begin);
    push(Token::Kind::string, unescaped(source_.substr(begin + 1, at_ - begin - 1)), begin);
    ++at_;
  }

  void read_symbol(std::string& brackets) {
    static constexpr std::string_view pairs[] = {"**", "//", "==", "!=", "<=", ">="};
    static constexpr std::string_view singles = "+-*/%~=<>()[]{}.:,|;";
    std::string symbol;
    for (const std::string_view pair : pairs) {
      if (starts_with(pair, at_)) symbol = pair;
    }
    if (symbol.empty() && singles.find(peek()) != std::string_view::npos) symbol = peek();
    if (symbol.empty())
      fail(text("unexpected character '", source_.substr(at_, char_bytes(source_, at_)), "'"), at_);
    track_bracket(symbol[0], brackets);
    push(Token::Kind::symbol, symbol, at_);
    at_ += symbol.size();
  }

  /// Inside brackets "}}" closes dicts, not the tag.
  void track_bracket(char c, std::string& brackets) {
    if (c == '(') brackets += ')';
    if (c == '[') brackets += ']';
    if (c == '{') brackets += '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets.empty() || brackets.back() != c) fail(text("unexpected '", c, "'"), at_);
    brackets.pop_back();
  }

  std::string_view source_;
  const std::string& origin_;
  size_t at_ = 0;
  size_t counted_to_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalized_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      out += source[at];
    } else {
      out += '\n';
      if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::vector<Token> tokenize(std::string_view source, const std::string& origin) {
  return Lexer(source, origin).run();
}

}  // namespace duoka::data::jinja
