// SPDX-License-Identifier: Apache-2.0
// What Python's Jinja2 makes of a template, and what the interpreter makes of it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/data/chat_template.h"

namespace duoka::data::testing {

/// A template and the text that Jinja2, set up as transformers does, gives for `conversation()` and
/// `variables`. tools/record/jinja_parts.py reads the tables of these out of the sources of the tests,
/// fills in `text` (--write) and checks it, so nobody has to take the text on trust.
struct Recorded {
  std::string_view source;
  std::string_view text;
};

/// For `text`: Python raises an exception.
inline constexpr std::string_view raises = "\x01raises";

/// What the recorded templates see besides `messages`.
inline constexpr const char* variables = R"json({
  "empty": "", "nothing": null, "yes": true, "half": 0.5, "big": 9007199254740993, "word": "héllo wörld",
  "names": ["Ann", "bob", "Cy"], "blank": "  \n x \t", "cjk": "你好🦙", "quote": "it's \"so\" \\ <b>&",
  "nested": {"a": [1, {"b": null}], "é": "ü", "items": 3, "t": {"u": {"v": "deep"}}},
  "people": [{"name": "Ann", "age": 31, "town": {"zip": 10}}, {"name": "bob", "age": 7},
             {"name": "Cy", "age": 31, "town": {"zip": 5}}]
})json";

inline Conversation conversation() { return {{{"user", " Hi <b>\n"}, {"assistant", "Yo"}}}; }

inline std::string render(std::string_view source) {
  ChatTemplate::Variables seen;
  seen.extra_json = variables;
  return ChatTemplate::parse(std::string(source), "t.jinja").render_text(conversation(), seen);
}

/// The message of the error that `source` ends in; "" when it renders.
inline std::string failure(std::string_view source) {
  try {
    render(source);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline void expect_as_recorded(std::span<const Recorded> cases) {
  for (const Recorded& one : cases) {
    try {
      const std::string text = render(one.source);
      if (one.text == raises) {
        ADD_FAILURE() << one.source << "\n  gives: " << text << "\n  but Python raises";
      } else {
        EXPECT_EQ(text, one.text) << one.source;
      }
    } catch (const Error& error) {
      EXPECT_EQ(one.text, raises) << one.source << "\n  fails: " << error.what();
    }
  }
}

/// A template that fails, and the whole message.
struct Mistake {
  std::string_view source;
  std::string_view message;
};

inline void expect_messages(std::span<const Mistake> cases) {
  for (const Mistake& one : cases) EXPECT_EQ(failure(one.source), one.message) << one.source;
}

}  // namespace duoka::data::testing
