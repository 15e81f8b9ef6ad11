// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/streaming_decoder.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tokenizer/unicode.h"
#include "data/tokenizer_parts.h"
#include "data/tokenizer_test_files.h"

namespace duoka::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> texts = {
    "",
    "the cat sat on the mat",
    " leading and trailing ",
    "你好，世界",
    "🦙👨‍👩‍👧 ❤️",
    "a\n\n\tb",
    "é e\u0301 ﬁ",
    "x🦙y你z",
    "   ",
};

std::vector<std::string> pushed(StreamingDecoder& decoder, const std::vector<int32_t>& ids) {
  std::vector<std::string> parts;
  for (const int32_t id : ids) parts.push_back(decoder.push(id));
  parts.push_back(decoder.finish());
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

/// Every part is whole characters, and together they are what decoding at once gives.
TEST(StreamingDecoder, PartsAreWholeCharactersOfTheText) {
  for (const Tokenizer& tokenizer : {testing::tiny_llama(), testing::byte_fallback()}) {
    StreamingDecoder decoder(tokenizer);
    for (const std::string& text : texts) {
      const std::vector<int32_t> ids = testing::ids_of(tokenizer, text);
      const auto parts = pushed(decoder, ids);
      for (const std::string& part : parts) {
        EXPECT_EQ(valid_prefix(part), part.size()) << text;
        EXPECT_THAT(part, Not(HasSubstr("\uFFFD"))) << text;
      }
      EXPECT_EQ(joined(parts), tokenizer.decode(ids)) << text;
    }
  }
}

TEST(StreamingDecoder, ACharacterComesWithItsLastByte) {
  const Tokenizer tokenizer = testing::byte_fallback();
  StreamingDecoder decoder(tokenizer);
  const std::vector<int32_t> ids = testing::ids_of(tokenizer, "🦙");
  std::vector<std::string> parts;
  for (const int32_t id : ids) {
    const std::string part = decoder.push(id);
    if (!part.empty()) parts.push_back(part);
  }
  EXPECT_THAT(joined(parts), HasSubstr("🦙"));
  EXPECT_EQ(decoder.finish(), "");
  ASSERT_GE(ids.size(), 4u) << "the vocabulary has no such character: its bytes come one by one";
}

TEST(StreamingDecoder, AnUnfinishedCharacterIsReplacedAtTheEnd) {
  const Tokenizer tokenizer = testing::byte_fallback();
  const auto byte = [&](const char* token) {
    const auto id = tokenizer.id_of(token);
    EXPECT_TRUE(id.has_value()) << token;
    return id.value_or(0);
  };
  StreamingDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(byte("<0xF0>")), "");
  EXPECT_EQ(decoder.push(byte("<0x9F>")), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "") << "nothing is left";
  // A byte that can become nothing is not waited for.
  EXPECT_EQ(decoder.push(byte("<0xFF>")), "\uFFFD");
  EXPECT_EQ(decoder.push(byte("<0xE4>")), "");
  EXPECT_EQ(decoder.push(byte("<0x41>")), "\uFFFDA");
}

TEST(StreamingDecoder, IsNewAgainBehindFinish) {
  const Tokenizer tokenizer = testing::tiny_llama();
  StreamingDecoder decoder(tokenizer);
  const std::vector<int32_t> ids = testing::ids_of(tokenizer, "the cat");
  const auto first = pushed(decoder, ids);
  EXPECT_EQ(pushed(decoder, ids), first);
}

TEST(StreamingDecoder, ControlTokensAreLeftOutOnDemand) {
  const Tokenizer tokenizer = testing::tiny_llama();
  const auto bos = tokenizer.bos_id(), eos = tokenizer.eos_id();
  ASSERT_TRUE(bos && eos);
  std::vector<int32_t> ids = {*bos};
  for (const int32_t id : testing::ids_of(tokenizer, "the cat")) ids.push_back(id);
  ids.push_back(*eos);
  StreamingDecoder shows(tokenizer), skips(tokenizer, true);
  EXPECT_EQ(joined(pushed(shows, ids)), tokenizer.bos_token() + "the cat" + tokenizer.eos_token());
  EXPECT_EQ(joined(pushed(skips, ids)), "the cat");
}

TEST(StreamingDecoder, LongStreamsEqualDecodingAtOnce) {
  const Tokenizer tokenizer = testing::tiny_llama();
  std::string text;
  for (int i = 0; i < 60; ++i) text += texts[static_cast<size_t>(i) % texts.size()];
  const std::vector<int32_t> ids = testing::ids_of(tokenizer, text);
  StreamingDecoder decoder(tokenizer);
  EXPECT_EQ(joined(pushed(decoder, ids)), text);
}

}  // namespace
}  // namespace duoka::data
