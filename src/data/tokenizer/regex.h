// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace duoka::data {

/// What one thread needs to match: offsets and the stack of compiled code. Reused for all patterns.
class MatchState {
 public:
  MatchState();
  ~MatchState();
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;

 private:
  friend class Regex;
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

/// A regular expression as tokenizer.json has them (Oniguruma's default syntax), run by PCRE2's compiler.
/// Immutable: threads share one, each with its own MatchState.
class Regex {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  /// `origin`: the file's name for messages. Throws FormatError for what cannot be compiled or would mean
  /// something else to PCRE2.
  Regex(std::string_view pattern, const std::string& origin);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// The first match at or after byte `from` of `subject`, valid UTF-8 that is all the pattern can see.
  /// Throws DataError when matching takes more memory than it may.
  std::optional<Match> find(std::string_view subject, size_t from, MatchState& state) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

/// `pattern` in PCRE2's syntax: white space and word characters spelt out by code point, since PCRE2's own
/// \s and \w are other sets than Oniguruma's. Throws FormatError for constructs that differ otherwise.
std::string translate_pattern(std::string_view pattern, const std::string& origin);

}  // namespace duoka::data
