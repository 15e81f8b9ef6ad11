// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/strings.h"

#include <algorithm>
#include <utility>

#include "data/jinja/print.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

void add_charged(Session& session, Text& out, const Text& part) {
  session.make_bytes(part.size(), out.size() + part.size());
  out.append(part);
}

/// `text` with each character passed through `change(code_point)`.
/// `is_title`: what becomes upper case begins a word.
template <class Change>
Text map_chars(Session& session, const Text& text, bool is_title, Change change) {
  const std::string_view bytes = text.view();
  session.make_bytes(bytes.size(), bytes.size());
  Text out;
  std::string changed;
  for (size_t at = 0; at < bytes.size();) {
    const size_t count = char_bytes(bytes, at);
    const uint32_t before = char_at(bytes, at);
    const uint32_t after = change(before);
    if (after == before) {
      out.append(bytes.substr(at, count), text.mark_at(at));
    } else {
      changed.clear();
      // The one letter in use whose capital is two letters: U+1E9E is its capital, but not Python's.
      if (before == 0xDF) {
        changed = is_title ? "Ss" : "SS";
      } else {
        append_utf8(changed, after);
      }
      out.append(changed, text.mark_at(at));
    }
    at += count;
  }
  return out;
}

/// Letters, for title(): characters that have a case.
bool is_cased(uint32_t c) { return with_case(c, Case::upper) != c || with_case(c, Case::lower) != c; }

bool is_jinja_word_break(uint32_t c) {
  return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
}

Values split_at_space(Session& session, const Text& text, int64_t limit) {
  Values parts;
  const std::string_view bytes = text.view();
  size_t at = leading_bytes(bytes);
  while (at < bytes.size()) {
    session.step();
    size_t end = at;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      end = bytes.size();
    } else {
      while (end < bytes.size() && !is_space(char_at(bytes, end))) end += char_bytes(bytes, end);
    }
    parts.push_back(session.text(text.slice(at, end)));
    at = end + leading_bytes(bytes.substr(end));
  }
  return parts;
}

Values split_at_space_right(Session& session, const Text& text, int64_t limit) {
  if (limit < 0) return split_at_space(session, text, limit);
  Values words = split_at_space(session, text, -1);
  const auto count = static_cast<int64_t>(words.size());
  if (count <= limit + 1) return words;
  // The words that are not cut off stay one text, with the blanks between them.
  Values parts(words.end() - limit, words.end());
  size_t end = text.size() - trailing_bytes(text.view());
  for (int64_t i = 0; i < limit; ++i) {
    end -= words[static_cast<size_t>(count - 1 - i)].as_text()->size();
    end -= trailing_bytes(text.view().substr(0, end));
  }
  parts.insert(parts.begin(), session.text(text.slice(0, end)));
  return parts;
}

}  // namespace

Text strip(const Text& text, Side side, std::string_view chars) {
  const std::string_view bytes = text.view();
  const size_t begin = side == Side::right ? 0 : leading_bytes(bytes, chars);
  const size_t cut = side == Side::left ? 0 : trailing_bytes(bytes.substr(begin), chars);
  return text.slice(begin, bytes.size() - cut);
}

Text change_case(Session& session, const Text& text, Case wanted) {
  return map_chars(session, text, wanted == Case::title,
                   [wanted](uint32_t c) { return with_case(c, wanted); });
}

Text capitalize(Session& session, const Text& text) {
  bool is_first = true;
  return map_chars(session, text, true, [&](uint32_t c) {
    return with_case(c, std::exchange(is_first, false) ? Case::title : Case::lower);
  });
}

Text title(Session& session, const Text& text, bool is_jinja) {
  bool is_start = true;
  const Case first = is_jinja ? Case::upper : Case::title;
  return map_chars(session, text, !is_jinja, [&](uint32_t c) {
    const bool starts_word = std::exchange(is_start, is_jinja ? is_jinja_word_break(c) : !is_cased(c));
    return with_case(c, starts_word ? first : Case::lower);
  });
}

Text replace(Session& session, const Text& text, const Text& old_part, const Text& new_part, int64_t limit) {
  Text out;
  size_t at = 0;
  const std::string_view bytes = text.view();
  const auto keep = [&](size_t end) {
    session.make_bytes(end - at, out.size() + end - at);
    out.append(text, at, end);
    at = end;
  };
  for (int64_t count = 0; limit < 0 || count < limit; ++count) {
    session.step();
    // An empty part is found before every character and at the end.
    const size_t found = old_part.is_empty() ? at : bytes.find(old_part.view(), at);
    if (found == std::string_view::npos) break;
    keep(found);
    add_charged(session, out, new_part);
    at = found + old_part.size();
    if (!old_part.is_empty()) continue;
    if (at >= bytes.size()) break;
    keep(at + char_bytes(bytes, at));
  }
  keep(bytes.size());
  // Where all of it was taken out, its place still counts.
  return out.is_empty() ? text.slice(0, 0) : out;
}

Values split(Session& session, const Text& text, const Text* separator, int64_t limit) {
  if (!separator) return split_at_space(session, text, limit);
  if (separator->is_empty()) throw Fault{"split() needs a separator that is not empty"};
  Values parts;
  size_t at = 0;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    session.step();
    const size_t found = text.view().find(separator->view(), at);
    if (found == std::string_view::npos) break;
    parts.push_back(session.text(text.slice(at, found)));
    at = found + separator->size();
  }
  parts.push_back(session.text(text.slice(at, text.size())));
  return parts;
}

Values split_right(Session& session, const Text& text, const Text* separator, int64_t limit) {
  if (!separator) return split_at_space_right(session, text, limit);
  if (separator->is_empty()) throw Fault{"rsplit() needs a separator that is not empty"};
  Values parts;
  size_t end = text.size();
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    session.step();
    const size_t found = text.view().substr(0, end).rfind(separator->view());
    if (found == std::string_view::npos) break;
    parts.push_back(session.text(text.slice(found + separator->size(), end)));
    end = found;
  }
  parts.push_back(session.text(text.slice(0, end)));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Values split_lines(Session& session, const Text& text, bool keeps_ends) {
  Values lines;
  const std::string_view bytes = text.view();
  for (size_t at = 0; at < bytes.size();) {
    session.step();
    size_t end = at;
    while (end < bytes.size() && !is_line_break(char_at(bytes, end))) end += char_bytes(bytes, end);
    size_t next = end;
    if (end < bytes.size()) next += bytes.substr(end, 2) == "\r\n" ? 2 : char_bytes(bytes, end);
    lines.push_back(session.text(text.slice(at, keeps_ends ? next : end)));
    at = next;
  }
  return lines;
}

int64_t count_words(Session& session, const Text& text) {
  const std::string_view bytes = text.view();
  session.step(1 + static_cast<int64_t>(bytes.size() >> 6));
  int64_t count = 0;
  bool is_inside = false;
  for (size_t at = 0; at < bytes.size(); at += char_bytes(bytes, at)) {
    const uint32_t c = char_at(bytes, at);
    const bool is_word = c == '_' || is_letter_or_number(c);
    if (is_word && !is_inside) ++count;
    is_inside = is_word;
  }
  return count;
}

Text join(Session& session, const Values& items, const Text& separator) {
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    session.step();
    if (i > 0) add_charged(session, out, separator);
    add_charged(session, out, to_text(session, items[i]));
  }
  return out;
}

Text indent(Session& session, const Text& text, const Text& by, bool indents_first, bool indents_blank) {
  Text whole = text;
  // Jinja's way of keeping the empty line behind a final newline.
  whole.append("\n");
  const Values lines = split_lines(session, whole);
  Text out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Text& line = *lines[i].as_text();
    if (i > 0) out.append("\n", text.mark_at(text.size()));
    const bool is_indented = i == 0 ? indents_first : indents_blank || !line.is_empty();
    if (is_indented) add_charged(session, out, by);
    add_charged(session, out, line);
  }
  return out;
}

}  // namespace duoka::data::jinja
