// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "data/jinja/session.h"
#include "data/jinja/unicode.h"
#include "data/jinja/value.h"

namespace duoka::data::jinja {

// Python's str methods on marked text; shared by methods and filters.

enum class Side { left, right, both };
Text strip(const Text& text, Side side, std::string_view chars = {});
Text change_case(Session& session, const Text& text, Case wanted);
/// First character of the text in title case, the rest in lower case.
Text capitalize(Session& session, const Text& text);
/// str.title() (`is_word_start` by letters) and Jinja's title filter (by blanks and brackets).
Text title(Session& session, const Text& text, bool is_jinja);
/// `limit` < 0: all.
Text replace(Session& session, const Text& text, const Text& old_part, const Text& new_part, int64_t limit);
/// Cuts at `separator`, or at white space when there is none; at most `limit` cuts (< 0: any number).
Values split(Session& session, const Text& text, const Text* separator, int64_t limit);
/// The same from the right end.
Values split_right(Session& session, const Text& text, const Text* separator, int64_t limit);
/// `keeps_ends`: each line with what ends it.
Values split_lines(Session& session, const Text& text, bool keeps_ends = false);
/// Runs of letters, numbers and '_'.
int64_t count_words(Session& session, const Text& text);
Text join(Session& session, const Values& items, const Text& separator);
Text indent(Session& session, const Text& text, const Text& by, bool indents_first, bool indents_blank);

}  // namespace duoka::data::jinja
