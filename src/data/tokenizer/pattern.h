// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer/regex.h"
#include "duoka/io/json.h"

namespace duoka::data {

/// What a Replace or Split looks for: {"String": s} or {"Regex": r}.
class Pattern {
 public:
  Pattern(const io::Json& owner, const std::string& origin);

  /// The first non-empty match at or after `from`.
  std::optional<Regex::Match> find(std::string_view subject, size_t from, MatchState& state) const;

 private:
  std::string literal_;  ///< Used when there is no regex_; "" is never found.
  std::optional<Regex> regex_;
};

}  // namespace duoka::data
