// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace duoka::data::jinja {

struct Token {
  enum class Kind {
    data,            ///< Text between tags, white space control applied.
    variable_begin,  ///< {{
    variable_end,    ///< }}
    block_begin,     ///< {%
    block_end,       ///< %}
    name,
    string,  ///< `text` is the unescaped value.
    integer,
    floating,
    symbol,  ///< An operator or a bracket.
    end,
  };
  Kind kind;
  std::string text;
  size_t begin = 0;  ///< Offset in the source.
  int line = 1;
};

/// The source as Jinja sees it: newlines made '\n', one trailing newline dropped.
std::string normalized_source(std::string_view source);

/// Cuts `source` (normalized) into tokens, with trim_blocks and lstrip_blocks on, raw blocks and comments
/// resolved. The last token is `end`.
/// Throws FormatError "origin:line: why".
std::vector<Token> tokenize(std::string_view source, const std::string& origin);

}  // namespace duoka::data::jinja
