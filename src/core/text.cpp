// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace duoka {

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string all;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) all += separator;
    all += parts[i];
  }
  return all;
}

namespace {

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

namespace {

bool is_later_byte(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// How many bytes of the character that `text` begins with would drive a terminal: 0 where it is none of
/// U+0000..U+001F, U+007F and, in two bytes, U+0080..U+009F.
size_t control_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7F) return 1;
  return first == 0xC2 && text.size() > 1 && is_later_byte(text[1]) &&
                 static_cast<unsigned char>(text[1]) < 0xA0
             ? 2
             : 0;
}

std::string escaped(char c) {
  char escape[8];
  std::snprintf(escape, sizeof escape, "\\x%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return escape;
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string shown;
  while (!text.empty()) {
    if (shown.size() >= max_bytes) {
      // Cut before a character, not within one.
      if (is_later_byte(text[0])) {
        while (!shown.empty() && is_later_byte(shown.back())) shown.pop_back();
        if (!shown.empty()) shown.pop_back();
      }
      return shown + "…";
    }
    const size_t num_controls = control_bytes(text);
    for (const char c : text.substr(0, num_controls)) shown += escaped(c);
    if (num_controls == 0) shown += text[0];
    text.remove_prefix(std::max<size_t>(1, num_controls));
  }
  return shown;
}

std::string bytes_text(int64_t bytes) {
  static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return buffer;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  char buffer[32];
  if (whole >= 3600)
    std::snprintf(buffer, sizeof buffer, "%d:%02d:%02d", static_cast<int>(whole / 3600),
                  static_cast<int>(whole / 60 % 60), static_cast<int>(whole % 60));
  else
    std::snprintf(buffer, sizeof buffer, "%d:%02d", static_cast<int>(whole / 60),
                  static_cast<int>(whole % 60));
  return buffer;
}

std::string wrapped(std::string_view words, size_t indent, size_t columns) {
  std::string out;
  size_t column = indent, at = 0;
  while (at < words.size()) {
    const size_t space = std::min(words.find(' ', at), words.size());
    const std::string_view word = words.substr(at, space - at);
    if (column > indent && column + 1 + word.size() > columns) {
      out.erase(out.find_last_not_of(' ') + 1);
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    at = space + 1;
  }
  return out;
}

std::string count_text(int64_t count) {
  const std::string digits = std::to_string(count < 0 ? -count : count);
  std::string out = count < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string counted(int64_t count, std::string_view noun) {
  std::string out = count_text(count) + " ";
  if (count == 1) return out.append(noun);
  const char before_last = noun.size() > 1 ? noun[noun.size() - 2] : ' ';
  if (noun.ends_with('y') && std::string_view("aeiou").find(before_last) == std::string_view::npos)
    return out.append(noun.substr(0, noun.size() - 1)).append("ies");
  return out.append(noun).append(noun.ends_with("ch") ? "es" : "s");
}

}  // namespace duoka
