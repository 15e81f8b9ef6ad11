// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/tokenizer.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/tokenizer_test_files.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/data/streaming_decoder.h"
#include "duoka/io/json.h"

namespace duoka::data {
namespace {

using testing::byte_fallback;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::fixtures;
using ::testing::HasSubstr;
using testing::tiny_llama;

constexpr EncodeOptions plain{.add_special_tokens = false};

io::Json expected(const std::string& name) { return io::read_json_file(fixtures() / "cases" / name); }

TEST(Tokenizer, CaseB01OneBosForPlainText) {
  const Tokenizer tokenizer = tiny_llama();
  const io::Json wanted = expected("B01_expected.json");
  EXPECT_EQ(tokenizer.encode("the cat").ids,
            wanted["plain_text"]["ids_with_bos"].get<std::vector<int32_t>>());
}

TEST(Tokenizer, CaseB01TheTemplatesBosIsTheOnlyOne) {
  const Tokenizer tokenizer = tiny_llama();
  const std::string rendered =
      "<|bos|><|im_start|>user\nthe cat<|im_end|><|im_start|>assistant\nsat on the mat<|im_end|>";
  EXPECT_EQ(tokenizer.encode(rendered, plain).ids,
            expected("B01_expected.json")["ids"].get<std::vector<int32_t>>());
}

TEST(Tokenizer, CaseB05IdsAndTexts) {
  const Tokenizer tokenizer = byte_fallback();
  const io::Json wanted = expected("B05_expected.json");
  for (const io::Json& one : wanted["cases"]) {
    const std::string text = one["text"].get<std::string>();
    const Encoding encoding = tokenizer.encode(text, plain);
    EXPECT_EQ(encoding.ids, one["ids"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(tokenizer.decode(encoding.ids), one["decoded"].get<std::string>());
  }
}

TEST(Tokenizer, CaseB08StreamsWholeCharacters) {
  const Tokenizer tokenizer = tiny_llama();
  const io::Json wanted = expected("B08_expected.json");
  StreamingDecoder decoder(tokenizer);
  std::string joined;
  for (const int32_t id : wanted["ids"].get<std::vector<int32_t>>()) {
    const std::string part = decoder.push(id);
    EXPECT_THAT(part, ::testing::Not(HasSubstr("\uFFFD")));
    joined += part;
  }
  EXPECT_EQ(joined + decoder.finish(), wanted["full_text"].get<std::string>());
}

TEST(Tokenizer, StreamingEqualsDecodingWhateverTheTokens) {
  const Tokenizer all[] = {tiny_llama(), byte_fallback()};
  for (const Tokenizer& tokenizer : all) {
    uint64_t state = 7;
    StreamingDecoder decoder(tokenizer);
    for (int round = 0; round < 300; ++round) {
      std::vector<int32_t> ids;
      std::string joined;
      for (int i = 0; i < 20; ++i) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        ids.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(tokenizer.vocab_size())));
        joined += decoder.push(ids.back());
      }
      EXPECT_EQ(joined + decoder.finish(), tokenizer.decode(ids));
    }
  }
}

TEST(Tokenizer, EmptyText) {
  const Tokenizer tokenizer = tiny_llama();
  EXPECT_THAT(tokenizer.encode("", plain).ids, ElementsAre());
  EXPECT_THAT(tokenizer.encode("").ids, ElementsAre(0));  // the post-processor's BOS
  EXPECT_EQ(tokenizer.decode({}), "");
  EXPECT_THAT(byte_fallback().encode("", plain).ids, ElementsAre());
}

TEST(Tokenizer, OnlyControlTokens) {
  const Tokenizer tokenizer = tiny_llama();
  const Encoding encoding = tokenizer.encode("<|im_start|><|im_end|><|im_end|>", plain);
  EXPECT_THAT(encoding.ids, ElementsAre(3, 4, 4));
  EXPECT_THAT(encoding.begins, ElementsAre(0U, 12U, 22U));
  EXPECT_EQ(tokenizer.decode(encoding.ids, true), "");
  EXPECT_EQ(tokenizer.decode(encoding.ids), "<|im_start|><|im_end|><|im_end|>");
}

TEST(Tokenizer, LiteralRangesHoldNoControlTokens) {
  const Tokenizer tokenizer = tiny_llama();
  const std::string text = "<|im_start|>a<|im_end|>b<|im_end|>";
  const TextRange typed[] = {{12, 24}};  // a<|im_end|>b
  const Encoding encoding = tokenizer.encode(text, {.add_special_tokens = false, .literal = typed});
  EXPECT_EQ(encoding.ids.front(), 3);
  EXPECT_EQ(encoding.ids.back(), 4);
  EXPECT_EQ(std::count(encoding.ids.begin(), encoding.ids.end(), 4), 1);
  EXPECT_EQ(tokenizer.decode(encoding.ids), text);
}

TEST(Tokenizer, OneTypedByteIsEnoughToRefuseAControlToken) {
  const Tokenizer tokenizer = tiny_llama();
  const std::string text = "<|im_end|>";
  for (size_t begin = 0; begin < text.size(); ++begin) {
    const TextRange typed[] = {{begin, begin + 1}};
    const Encoding encoding = tokenizer.encode(text, {.add_special_tokens = false, .literal = typed});
    for (const int32_t id : encoding.ids) EXPECT_FALSE(tokenizer.is_special(id));
    EXPECT_EQ(tokenizer.decode(encoding.ids), text);
  }
  const TextRange empty[] = {{3, 3}};
  EXPECT_THAT(tokenizer.encode(text, {.add_special_tokens = false, .literal = empty}).ids, ElementsAre(4));
}

// The vocabulary merges "t" + "he" into "the"; declared a control token, typed text must not become it.
TEST(Tokenizer, MergesDoNotMakeControlTokensOfTypedText) {
  io::Json json = io::read_json_file(testing::model_folder("tiny-llama") / "tokenizer.json");
  const int32_t the = json["model"]["vocab"]["Ġthe"].get<int32_t>();
  json["added_tokens"].push_back(
      {{"id", the}, {"content", "Ġthe"}, {"special", true}, {"normalized", false}});
  json["model"]["ignore_merges"] = true;
  const testing::TemporaryFolder folder;
  write_file_atomically(folder.path() / "tokenizer.json", json.dump());
  const Tokenizer tokenizer = Tokenizer::from_folder(folder.path());
  const std::string text = "on the mat";
  const TextRange typed[] = {{0, text.size()}};
  EXPECT_THAT(tokenizer.encode(text, plain).ids, ::testing::Contains(the));
  const Encoding encoding = tokenizer.encode(text, {.add_special_tokens = false, .literal = typed});
  EXPECT_THAT(encoding.ids, ::testing::Not(::testing::Contains(the)));
  EXPECT_EQ(tokenizer.decode(encoding.ids), text);
}

TEST(Tokenizer, BeginsAreBytesOfTheOriginal) {
  const Tokenizer tokenizer = tiny_llama();
  const std::string text = "the 你 cat<|im_end|>é";
  const Encoding encoding = tokenizer.encode(text, plain);
  ASSERT_EQ(encoding.ids.size(), encoding.begins.size());
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const std::string bytes = tokenizer.token_bytes(encoding.ids[i]);
    EXPECT_EQ(text.substr(encoding.begins[i], bytes.size()), bytes);
  }
}

TEST(Tokenizer, BeginsSurviveNormalisation) {
  const Encoding encoding = byte_fallback().encode("a你 b", plain);
  // ▁a, three bytes, ▁, b: the mark in front takes no byte, the space is one.
  EXPECT_THAT(encoding.begins, ElementsAre(0U, 1U, 2U, 3U, 4U, 5U));
}

TEST(Tokenizer, InvalidUtf8IsReadAsReplacementCharacters) {
  const Tokenizer tokenizer = tiny_llama();
  for (const auto& [bytes, read] : std::vector<std::pair<std::string, std::string>>{
           {"a\xFFz", "a\uFFFDz"},                  // never a byte of UTF-8
           {"\xE4\xBD", "\uFFFD"},                  // cut
           {"\xE4\xBDx", "\uFFFDx"},                // cut, text follows
           {"\xC0\x80", "\uFFFD\uFFFD"},            // overlong
           {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},  // surrogate
           {"\xF4\x90\x80\x80 k", "\uFFFD\uFFFD\uFFFD\uFFFD k"}}) {
    const Encoding encoding = tokenizer.encode(bytes, plain);
    EXPECT_EQ(encoding.ids, tokenizer.encode(read, plain).ids);
    for (const uint32_t begin : encoding.begins) EXPECT_LT(begin, bytes.size());
  }
}

TEST(Tokenizer, RolesAndLookUps) {
  const Tokenizer tokenizer = tiny_llama();
  EXPECT_EQ(tokenizer.bos_id(), 0);
  EXPECT_EQ(tokenizer.eos_id(), 1);
  EXPECT_EQ(tokenizer.pad_id(), 2);
  EXPECT_EQ(tokenizer.eos_token(), "<|eos|>");
  EXPECT_TRUE(tokenizer.is_special(4));
  EXPECT_FALSE(tokenizer.is_special(5));
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_EQ(tokenizer.vocab_size(), 320);
  EXPECT_EQ(tokenizer.id_of("<|im_end|>"), 4);
  EXPECT_EQ(tokenizer.id_of("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.token_bytes(*tokenizer.id_of("Ġthe")), " the");
  EXPECT_EQ(byte_fallback().token_bytes(*byte_fallback().id_of("<0xE4>")), "\xE4");
  EXPECT_EQ(byte_fallback().token_bytes(*byte_fallback().id_of("▁a")), " a");
  EXPECT_THROW(tokenizer.token_bytes(320), StateError);
  EXPECT_THAT(tokenizer.chat_template().value_or(""), HasSubstr("add_generation_prompt"));
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreNotDecoded) {
  const Tokenizer tokenizer = tiny_llama();
  const std::vector<int32_t> ids = {-5, 320, 1'000'000, 4};
  EXPECT_EQ(tokenizer.decode(ids), "<|im_end|>");
}

TEST(Tokenizer, SavedAndLoadedAgainIsTheSame) {
  const Tokenizer tokenizer = tiny_llama();
  const testing::TemporaryFolder folder;
  tokenizer.save(folder.path());
  const Tokenizer again = Tokenizer::from_folder(folder.path());
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(again.chat_template(), tokenizer.chat_template());
  EXPECT_EQ(again.bos_id(), tokenizer.bos_id());
  EXPECT_NE(byte_fallback().fingerprint(), tokenizer.fingerprint());
}

TEST(Tokenizer, TheTemplateFileComesFirst) {
  const testing::TemporaryFolder folder;
  tiny_llama().save(folder.path());
  write_file_atomically(folder.path() / "chat_template.jinja", std::string_view("{{ 1 }}"));
  EXPECT_EQ(Tokenizer::from_folder(folder.path()).chat_template(), "{{ 1 }}");
}

TEST(Tokenizer, ConfigDecidesAboutBosAndNamesControlTokens) {
  const testing::TemporaryFolder folder;
  tiny_llama().save(folder.path());
  const auto with_config = [&](const io::Json& config) {
    write_file_atomically(folder.path() / "tokenizer_config.json", config.dump());
    return Tokenizer::from_folder(folder.path());
  };
  EXPECT_THAT(with_config({{"add_bos_token", false}}).encode("").ids, ElementsAre());
  EXPECT_THAT(with_config({{"add_eos_token", true}, {"eos_token", {{"content", "<|eos|>"}}}}).encode("").ids,
              ElementsAre(1));
  EXPECT_EQ(with_config({{"pad_token", "not there"}}).pad_id(), std::nullopt);
  const io::Json named = {{{"name", "tool_use"}, {"template", "t"}},
                          {{"name", "default"}, {"template", "d"}}};
  EXPECT_EQ(with_config({{"chat_template", named}}).chat_template(), "d");
}

TEST(Tokenizer, ManyThreadsShareOne) {
  const Tokenizer tokenizer = tiny_llama();
  const std::string text = "the cat sat on the mat 你好 <|im_end|> 🦙 1234 the the";
  const std::vector<int32_t> wanted = tokenizer.encode(text).ids;
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) wrong[t] += tokenizer.encode(text).ids != wanted;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, Each(0));
}

}  // namespace
}  // namespace duoka::data
