// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utf8proc.h>

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

/// The whole text at once, by utf8proc.
std::string normalized_at_once(const std::string& text, int options) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const utf8proc_ssize_t size = utf8proc_map(bytes, static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                             static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  std::string result(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
  std::free(mapped);
  return result;
}

/// Text is normalised segment by segment, and stretches that cannot change are passed over. Random texts of
/// the ranges that are known to be such, and of what combines with them.
TEST(Normalizers, UnicodeFormsOfSegmentsAreThoseOfTheWholeText) {
  const std::vector<std::pair<char32_t, char32_t>> ranges = {
      {0x20, 0x2FF},    {0x300, 0x345},    {0x400, 0x482},   {0x483, 0x487},   {0x1100, 0x11FF},
      {0x2000, 0x2030}, {0x212A, 0x212B},  {0x3000, 0x303F}, {0x3041, 0x309F}, {0x3099, 0x309A},
      {0x30A1, 0x30FF}, {0x3400, 0x9FFF},  {0xAC00, 0xD7A3}, {0xAC00, 0xAC1C}, {0xF900, 0xFAFF},
      {0xFF01, 0xFFDC}, {0x1F300, 0x1FAFF}};
  const std::vector<std::pair<const char*, int>> forms = {{"NFC", UTF8PROC_COMPOSE},
                                                          {"NFD", UTF8PROC_DECOMPOSE},
                                                          {"NFKC", UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
                                                          {"NFKD", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
  uint64_t state = 3;
  const auto below = [&](size_t limit) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<size_t>(state >> 33) % limit;
  };
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (size_t count = 1 + below(8); count > 0; --count) {
      const auto [low, high] = ranges[below(ranges.size())];
      append_utf8(static_cast<char32_t>(low + below(high - low + 1)), text);
    }
    for (const auto& [name, options] : forms) {
      ASSERT_EQ(normalized({{"type", name}}, text), normalized_at_once(text, options))
          << name << " of " << text;
    }
  }
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
