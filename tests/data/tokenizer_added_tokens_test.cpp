// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer_parts.h"
#include "duoka/core/error.h"

namespace duoka::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const TokenFinder::MayStand anywhere = [](size_t, size_t) { return true; };
const TokenFinder::MayStand nowhere = [](size_t, size_t) { return false; };

using Spans = std::vector<std::tuple<int32_t, size_t, size_t>>;

Spans spans(const TokenFinder& finder, std::string_view text,
            const TokenFinder::MayStand& may_stand = anywhere) {
  Spans out;
  for (const TokenFinder::Found& found : finder.find_all(text, may_stand)) {
    out.emplace_back(found.token->id, found.begin, found.end);
  }
  return out;
}

AddedToken token(int32_t id, std::string content) {
  AddedToken made;
  made.id = id;
  made.content = std::move(content);
  return made;
}

TEST(AddedTokens, IdsEqualHuggingFaces) {
  size_t num_cases = 0;
  for (const io::Json& part : testing::recorded_parts("added_tokens")) {
    const Tokenizer tokenizer = testing::load_tokenizer(part["json"]);
    for (const io::Json& one : part["cases"]) {
      EXPECT_EQ(testing::ids_of(tokenizer, one[0]), one[1].get<std::vector<int32_t>>())
          << part["name"] << " of " << one[0];
      ++num_cases;
    }
  }
  EXPECT_GE(num_cases, 200u);
}

TEST(TokenFinder, LeftmostThenLongest) {
  const AddedToken ab = token(1, "ab"), abc = token(2, "abc"), bcd = token(3, "bcd");
  TokenFinder finder;
  EXPECT_TRUE(finder.is_empty());
  for (const AddedToken* one : {&ab, &abc, &bcd}) finder.add(one->content, *one);
  EXPECT_FALSE(finder.is_empty());
  EXPECT_THAT(spans(finder, "abcd"), ElementsAre(std::tuple(2, 0u, 3u)));
  EXPECT_THAT(spans(finder, "xabbcd"), ElementsAre(std::tuple(1, 1u, 3u), std::tuple(3, 3u, 6u)));
  EXPECT_THAT(spans(finder, "a"), IsEmpty());
  EXPECT_THAT(spans(finder, ""), IsEmpty());
  EXPECT_THAT(spans(finder, "aababcab"),
              ElementsAre(std::tuple(1, 1u, 3u), std::tuple(2, 3u, 6u), std::tuple(1, 6u, 8u)));
}

TEST(TokenFinder, OnlyControlTokensAreHeldBack) {
  AddedToken control = token(1, "<s>");
  control.is_special = true;
  const AddedToken word = token(2, "<t>");
  TokenFinder finder;
  finder.add(control.content, control);
  finder.add(word.content, word);
  EXPECT_THAT(spans(finder, "<s><t>", nowhere), ElementsAre(std::tuple(2, 3u, 6u)));
  const TokenFinder::MayStand behind = [](size_t begin, size_t) { return begin >= 3; };
  EXPECT_THAT(spans(finder, "<s><s>", behind), ElementsAre(std::tuple(1, 3u, 6u)));
}

TEST(TokenFinder, AShorterControlTokenStandsWhereTheLongerMayNot) {
  AddedToken shorter = token(1, "<s"), longer = token(2, "<s>");
  shorter.is_special = longer.is_special = true;
  TokenFinder finder;
  finder.add(shorter.content, shorter);
  finder.add(longer.content, longer);
  const TokenFinder::MayStand two_bytes = [](size_t begin, size_t end) { return end - begin == 2; };
  EXPECT_THAT(spans(finder, "<s>", two_bytes), ElementsAre(std::tuple(1, 0u, 2u)));
  EXPECT_THAT(spans(finder, "<s>"), ElementsAre(std::tuple(2, 0u, 3u)));
}

TEST(TokenFinder, SpacesBesideATokenGoWithIt) {
  AddedToken left = token(1, "<l>"), right = token(2, "<r>");
  left.strips_left = true;
  right.strips_right = true;
  TokenFinder finder;
  finder.add(left.content, left);
  finder.add(right.content, right);
  EXPECT_THAT(spans(finder, "a \t<l> b"), ElementsAre(std::tuple(1, 1u, 6u)));
  EXPECT_THAT(spans(finder, "a <r>\n\u3000b"), ElementsAre(std::tuple(2, 2u, 9u)));
  EXPECT_THAT(spans(finder, "<r>  <l>"), ElementsAre(std::tuple(2, 0u, 5u), std::tuple(1, 5u, 8u)));
  EXPECT_THAT(spans(finder, "  <l>"), ElementsAre(std::tuple(1, 0u, 5u)));
}

TEST(TokenFinder, WordsAreOfEveryAlphabet) {
  AddedToken cat = token(1, "cat");
  cat.is_single_word = true;
  TokenFinder finder;
  finder.add(cat.content, cat);
  for (const char* text : {"cat", " cat ", "(cat)", "a-cat.", "\u3000cat，"}) {
    EXPECT_EQ(spans(finder, text).size(), 1u) << text;
  }
  for (const char* text : {"cats", "tomcat", "_cat", "cat1", "écat", "cat你"}) {
    EXPECT_THAT(spans(finder, text), IsEmpty()) << text;
  }
}

TEST(AddedTokens, TypedControlTokensStayText) {
  io::Json json;
  for (const io::Json& part : testing::recorded_parts("added_tokens")) {
    if (part["name"] == "special") json = part["json"];
  }
  const Tokenizer tokenizer = testing::load_tokenizer(json);
  const std::string text = "<s>a<s>";
  const std::vector<TextRange> typed = {{4, 7}};
  const Encoding encoding = tokenizer.encode(text, {.add_special_tokens = false, .literal = typed});
  ASSERT_GE(encoding.ids.size(), 3u);
  EXPECT_EQ(encoding.ids.front(), 13);
  for (size_t i = 1; i < encoding.ids.size(); ++i) EXPECT_NE(encoding.ids[i], 13) << i;
}

TEST(AddedTokens, RefusesTokensThatCannotBe) {
  const auto refusal = [](const io::Json& token) {
    io::Json json =
        testing::tokenizer_json({{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", io::Json::array()}});
    json["added_tokens"] = io::Json::array({token});
    return duoka::testing::message_of<FormatError>([&] { testing::load_tokenizer(json); });
  };
  EXPECT_THAT(refusal({{"content", "x"}}), HasSubstr("id"));
  EXPECT_THAT(refusal({{"id", 1}}), HasSubstr("content"));
  EXPECT_THAT(refusal({{"id", -1}, {"content", "x"}}), HasSubstr("-1"));
  EXPECT_THAT(refusal({{"id", 3000000000}, {"content", "x"}}), HasSubstr("3000000000"));
  EXPECT_THAT(refusal(5), HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace duoka::data
