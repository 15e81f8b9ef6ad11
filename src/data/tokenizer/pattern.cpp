// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/pattern.h"

#include <nlohmann/json.hpp>

#include "data/tokenizer/unicode.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {

Pattern::Pattern(const io::Json& owner, const std::string& origin) {
  const io::Json& json = io::require_object(owner, "pattern", origin);
  if (const auto literal = io::optional_string(json, "String", origin)) {
    literal_ = *literal;
  } else if (const auto regex = io::optional_string(json, "Regex", origin)) {
    regex_.emplace(*regex, origin);
  } else {
    throw FormatError(
        text(origin, ": a pattern is ", json.dump(), "; wanted {\"String\": …} or {\"Regex\": …}"));
  }
}

std::optional<Regex::Match> Pattern::find(std::string_view subject, size_t from, MatchState& state) const {
  if (!regex_) {
    if (literal_.empty()) return std::nullopt;
    const size_t begin = subject.find(literal_, from);
    if (begin == std::string_view::npos) return std::nullopt;
    return Regex::Match{begin, begin + literal_.size()};
  }
  while (from <= subject.size()) {
    const auto match = regex_->find(subject, from, state);
    if (!match || match->end > match->begin) return match;
    if (match->begin == subject.size()) return std::nullopt;
    from = match->begin + first_code_point(subject.substr(match->begin)).size;
  }
  return std::nullopt;
}

}  // namespace duoka::data
