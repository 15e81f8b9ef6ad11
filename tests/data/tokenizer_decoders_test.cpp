// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer_parts.h"
#include "duoka/core/error.h"

namespace duoka::data {
namespace {

using ::testing::HasSubstr;

std::string decoded(const io::Json& json, std::vector<std::string> tokens, bool is_start = true) {
  return Decoder(&json, "t.json").decode(std::move(tokens), is_start);
}

std::string refusal(const io::Json& json) {
  return duoka::testing::message_of<FormatError>([&] { Decoder(&json, "t.json"); });
}

TEST(Decoders, EqualHuggingFaces) {
  size_t num_cases = 0;
  for (const io::Json& part : testing::recorded_parts("decoders")) {
    for (const io::Json& one : part["cases"]) {
      const std::string bytes = decoded(part["json"], one[0].get<std::vector<std::string>>());
      EXPECT_EQ(lossy_utf8(bytes), one[1].get<std::string>()) << part["name"] << " of " << one[0];
      ++num_cases;
    }
  }
  EXPECT_GT(num_cases, 150u);
}

/// What a decoder does to the very first token it does not do in the middle of a text.
TEST(Decoders, TheStartIsSpecial) {
  const io::Json metaspace = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}};
  EXPECT_EQ(decoded(metaspace, {"▁a", "▁b"}, true), "a b");
  EXPECT_EQ(decoded(metaspace, {"▁a", "▁b"}, false), " a b");
  const io::Json fuse = {{"type", "Fuse"}};
  const io::Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  const io::Json both = {{"type", "Sequence"}, {"decoders", io::Json::array({fuse, strip})}};
  EXPECT_EQ(decoded(both, {" a", " b"}, true), "a b");
  EXPECT_EQ(decoded(both, {" a", " b"}, false), " a b");
  EXPECT_EQ(decoded(strip, {" a", " b"}, false), "ab");
  EXPECT_EQ(decoded(nullptr, {"a", "b"}, true), "a b");
  EXPECT_EQ(decoded(nullptr, {"a", "b"}, false), " a b");
}

TEST(Decoders, ByteAlphabetIsABijection) {
  const io::Json bytes = {{"type", "ByteLevel"}};
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  std::string spelled;
  for (const char byte : all) append_spelled(static_cast<uint8_t>(byte), spelled);
  EXPECT_EQ(decoded(bytes, {spelled}), all);
  EXPECT_EQ(valid_prefix(spelled), spelled.size());
}

TEST(Decoders, ByteFallbackTakesEveryByte) {
  const io::Json json = {{"type", "ByteFallback"}};
  for (int byte = 0; byte < 256; ++byte) {
    char token[7];
    std::snprintf(token, sizeof token, "<0x%02X>", static_cast<unsigned>(byte));
    EXPECT_EQ(decoded(json, {token}), std::string(1, static_cast<char>(byte))) << token;
  }
}

TEST(Decoders, RefusesWhatItCannotDo) {
  EXPECT_THAT(refusal({{"type", "WordPiece"}}),
              HasSubstr("t.json: decoder WordPiece is not supported; supported are ByteLevel, Replace"));
  EXPECT_THAT(refusal(io::Json::object()), HasSubstr("type"));
  EXPECT_THAT(refusal({{"type", "Strip"}, {"content", ""}, {"start", 1}, {"stop", 0}}),
              HasSubstr("empty content"));
  EXPECT_THAT(refusal({{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", ""}}),
              HasSubstr("is not supported"));
  EXPECT_THAT(refusal({{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", "x"}}),
              HasSubstr("is not supported"));
  EXPECT_THAT(refusal({{"type", "Metaspace"}, {"replacement", ""}}), HasSubstr("empty replacement"));
  EXPECT_THAT(refusal({{"type", "Sequence"}}), HasSubstr("decoders"));
}

}  // namespace
}  // namespace duoka::data
