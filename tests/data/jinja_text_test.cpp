// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "data/jinja/lexer.h"
#include "data/jinja/print.h"
#include "data/jinja/string_literal.h"
#include "data/jinja/text.h"
#include "data/jinja/unicode.h"

namespace duoka::data::jinja {
namespace {

Mark mark(int32_t message) { return {message, Words::of_content, false}; }

TEST(JinjaText, MarksFollowTheirBytes) {
  // Two letters of each message, cut and joined at random: each byte must still tell its message.
  std::mt19937 random(7);
  Text whole;
  for (int32_t message = 0; message < 20; ++message) {
    const auto letter = static_cast<char>('a' + message);
    whole.append(std::string(1 + random() % 5, letter), mark(message));
  }
  for (int round = 0; round < 200; ++round) {
    Text mixed;
    for (int part = 0; part < 10; ++part) {
      const size_t begin = random() % whole.size();
      mixed.append(whole, begin, begin + random() % (whole.size() - begin + 1));
    }
    for (size_t at = 0; at < mixed.size(); ++at) {
      ASSERT_EQ(mixed.mark_at(at).message, mixed.bytes()[at] - 'a');
    }
    for (size_t i = 1; i < mixed.runs().size(); ++i) {
      ASSERT_LT(mixed.runs()[i - 1].end, mixed.runs()[i].end);
      ASSERT_NE(mixed.runs()[i - 1].mark, mixed.runs()[i].mark);
    }
  }
}

TEST(JinjaText, AnEmptyTextLeavesOneAnchor) {
  Text out("<");
  out.append(Text("", mark(3)));
  out.append(">");
  ASSERT_EQ(out.anchors().size(), 1u);
  EXPECT_EQ(out.anchors()[0].at, 1u);
  EXPECT_EQ(out.slice(1, 2).anchors().size(), 1u);
  EXPECT_EQ(out.slice(0, 1).anchors().size(), 0u);
  Text halves = out.slice(0, 1);
  halves.append(out.slice(1, 2));
  EXPECT_EQ(halves.anchors().size(), 1u);
}

TEST(JinjaText, GenerationMarkJoinsRuns) {
  Text text("a");
  text.append("b", {-1, Words::of_template, true});
  text.mark_generation();
  ASSERT_EQ(text.runs().size(), 1u);
  EXPECT_TRUE(text.mark_at(0).is_generation);
}

TEST(JinjaUnicode, CountsCharactersAndSurvivesBrokenBytes) {
  EXPECT_EQ(count_chars("añ🦙"), 3);
  EXPECT_EQ(char_offset("añ🦙b", 2), 3u);
  EXPECT_EQ(char_offset("ab", 9), 2u);
  const std::string broken = "a\xff\xf0\x9f b\x80";
  size_t at = 0;
  while (at < broken.size()) at += char_bytes(broken, at);
  EXPECT_EQ(at, broken.size());
  EXPECT_EQ(trailing_bytes("x\xc2\xa0 \n"), 4u);
  EXPECT_EQ(trailing_bytes("x \x80"), 0u);
  EXPECT_EQ(leading_bytes("\xe3\x80\x80\tx"), 4u);
}

TEST(JinjaLexer, NormalizesNewlinesAndDropsTheLast) {
  EXPECT_EQ(normalized_source("a\r\nb\rc\n\n"), "a\nb\nc\n");
  EXPECT_EQ(normalized_source("a"), "a");
  EXPECT_EQ(normalized_source(""), "");
}

TEST(JinjaLexer, TellsLines) {
  const auto tokens = tokenize("a\n{{ x\n+ y }}\n{% if z %}", "t");
  std::string names;
  for (const Token& token : tokens) {
    if (token.kind == Token::Kind::name) names += token.text + std::to_string(token.line) + " ";
  }
  EXPECT_EQ(names, "x2 y3 if4 z4 ");
}

TEST(JinjaLiterals, EscapesAsInPython) {
  EXPECT_EQ(unescaped(R"(\n\t\\\'\"\x41\u00e9\ud83e\udd99\101\q\ud800)"), "\n\t\\'\"Aé🦙A\\q\xEF\xBF\xBD");
}

TEST(JinjaPrint, FloatsAsInPython) {
  EXPECT_EQ(float_text(1), "1.0");
  EXPECT_EQ(float_text(1e16), "1e+16");
  EXPECT_EQ(float_text(1e-5), "1e-05");
  EXPECT_EQ(float_text(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(float_text(-0.0), "-0.0");
}

}  // namespace
}  // namespace duoka::data::jinja
