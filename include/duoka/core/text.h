// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace duoka {

/// Its arguments, streamed one after another: text("tp = ", tp, " does not divide ", n).
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// "a, b, c".
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

/// Of `candidates` the one nearest to `word` by edit distance, or "" when none is near enough to be a
/// likely typing mistake (distance over a third of the length).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// `text` as a message can show it whatever a file holds: control characters as \xNN, so that it stays one
/// line and drives no terminal; over `max_bytes` cut, with "…" at the end.
std::string printable(std::string_view text, size_t max_bytes = 500);

/// `words` in lines of at most `columns`, broken at spaces; the first begins at column `indent`, the others
/// are indented so. A word that is too long stands alone.
std::string wrapped(std::string_view words, size_t indent, size_t columns);

/// 1536 -> "1.5 KiB".
std::string bytes_text(int64_t bytes);
/// 83.0 -> "1:23"; 4000 -> "1:06:40".
std::string duration_text(double seconds);
/// 123456 -> "123,456".
std::string count_text(int64_t count);
/// A number of things, `noun` as of one of them: "1 card", "2,048 tokens", "3 entries", "4 micro-batches".
std::string counted(int64_t count, std::string_view noun);

}  // namespace duoka
