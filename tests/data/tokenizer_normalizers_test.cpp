// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer_parts.h"
#include "duoka/core/error.h"

namespace duoka::data {
namespace {

using ::testing::HasSubstr;

std::string normalized(const io::Json& json, const std::string& text) {
  const auto normalizer = make_normalizer(&json, "t.json");
  AlignedText aligned(text);
  MatchState state;
  normalizer->apply(aligned, state);
  return std::string(aligned.view());
}

std::string refusal(const io::Json& json) {
  return duoka::testing::message_of<FormatError>([&] { make_normalizer(&json, "t.json"); });
}

TEST(Normalizers, EqualHuggingFaces) {
  size_t num_cases = 0;
  for (const io::Json& part : testing::recorded_parts("normalizers")) {
    for (const io::Json& one : part["cases"]) {
      EXPECT_EQ(normalized(part["json"], one[0]), one[1].get<std::string>())
          << part["name"] << " of " << one[0];
      ++num_cases;
    }
  }
  EXPECT_GT(num_cases, 300u);
}

/// Each byte came from somewhere in the text, from left to right, and unchanged bytes from themselves.
TEST(Normalizers, OriginsRiseAndStayInside) {
  for (const io::Json& part : testing::recorded_parts("normalizers")) {
    const auto normalizer = make_normalizer(&part["json"], "t.json");
    for (const io::Json& one : part["cases"]) {
      const std::string text = one[0];
      AlignedText aligned(text);
      MatchState state;
      normalizer->apply(aligned, state);
      for (size_t i = 0; i < aligned.view().size(); ++i) {
        ASSERT_LE(aligned.origin(i), text.size()) << part["name"] << " of " << one[0];
        if (aligned.view() == text) {
          // A character that was looked at is said to come from its own first byte.
          ASSERT_LE(aligned.origin(i), i) << part["name"] << " of " << one[0];
          ASSERT_LT(i - aligned.origin(i), 4u) << part["name"] << " of " << one[0];
        }
      }
      EXPECT_EQ(valid_prefix(aligned.view()), aligned.view().size()) << part["name"];
    }
  }
}

TEST(Normalizers, OriginsOfReplacedText) {
  const io::Json json = {{"type", "Replace"}, {"pattern", {{"String", "bb"}}}, {"content", "xyz"}};
  AlignedText text("abbc");
  MatchState state;
  make_normalizer(&json, "t")->apply(text, state);
  ASSERT_EQ(text.view(), "axyzc");
  EXPECT_EQ(text.origin(0), 0u);
  EXPECT_EQ(text.origin(1), 1u);
  EXPECT_EQ(text.origin(3), 1u);
  EXPECT_EQ(text.origin(4), 3u);
}

TEST(Normalizers, UnicodeFormsAreStable) {
  for (const char* form : {"NFC", "NFD", "NFKC", "NFKD"}) {
    const io::Json json = {{"type", form}};
    for (const io::Json& part : testing::recorded_parts("normalizers")) {
      for (const io::Json& one : part["cases"]) {
        const std::string once = normalized(json, one[1]);
        EXPECT_EQ(normalized(json, once), once) << form << " of " << one[1];
      }
    }
  }
  const io::Json nfc = {{"type", "NFC"}}, nfd = {{"type", "NFD"}};
  EXPECT_EQ(normalized(nfc, normalized(nfd, "éÅ각ñ")), "éÅ각ñ");
}

TEST(Normalizers, NoneIsNone) {
  const io::Json null;
  EXPECT_EQ(make_normalizer(nullptr, "t"), nullptr);
  EXPECT_EQ(make_normalizer(&null, "t"), nullptr);
}

TEST(Normalizers, RefusesWhatItCannotDo) {
  EXPECT_THAT(refusal({{"type", "BertNormalizer"}}), HasSubstr("BertNormalizer"));
  EXPECT_THAT(refusal({{"type", "BertNormalizer"}}), HasSubstr("t.json"));
  EXPECT_THAT(refusal(io::Json::object()), HasSubstr("type"));
  EXPECT_THAT(refusal({{"type", "Replace"}, {"content", ""}}), HasSubstr("pattern"));
  EXPECT_THAT(refusal({{"type", "Replace"}, {"pattern", {{"Regex", "("}}}, {"content", ""}}),
              HasSubstr("t.json"));
  EXPECT_THAT(refusal({{"type", "Sequence"}}), HasSubstr("normalizers"));
  EXPECT_THAT(refusal({{"type", "Sequence"}, {"normalizers", {{{"type", "Nope"}}}}}), HasSubstr("Nope"));
}

}  // namespace
}  // namespace duoka::data
