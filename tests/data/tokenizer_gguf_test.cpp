// SPDX-License-Identifier: Apache-2.0
// Tokenizers out of GGUF files that are written here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/gguf_bytes.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/source.h"
#include "data/tokenizer_parts.h"
#include "duoka/core/error.h"

namespace duoka::data {
namespace {

using ::testing::ElementsAre;
using testing::GgufBytes;
using ::testing::HasSubstr;

/// The 256 bytes in the byte alphabet, then "he", "ll", "Ġw", then control and user tokens.
std::vector<std::string> tokens() {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) append_spelled(static_cast<uint8_t>(byte), all.emplace_back());
  for (const char* more : {"he", "ll", "Ġw", "<s>", "</s>", "<tool>"}) all.emplace_back(more);
  return all;
}
std::vector<int32_t> types() {
  std::vector<int32_t> all(259, 1);
  for (const int32_t more : {3, 3, 4}) all.push_back(more);
  return all;
}
const std::vector<std::string> merges = {"h e", "l l", "Ġ w"};

GgufBytes file(std::string_view pre = "gpt-2") {
  GgufBytes made;
  made.add("general.architecture", "llama")
      .add("tokenizer.ggml.model", "gpt2")
      .add("tokenizer.ggml.pre", pre);
  made.add("tokenizer.ggml.tokens", tokens()).add("tokenizer.ggml.token_type", types());
  return made.add("tokenizer.ggml.merges", merges);
}

Tokenizer load(const GgufBytes& bytes) {
  const duoka::testing::TemporaryFolder folder;
  duoka::testing::write_file(folder / "t.gguf", bytes.bytes());
  return Tokenizer::from_gguf(io::GgufFile::open(folder / "t.gguf"));
}

std::string refusal(const GgufBytes& bytes) {
  return duoka::testing::message_of<FormatError>([&] { load(bytes); });
}

TEST(GgufTokenizer, EncodesAndDecodes) {
  const Tokenizer tokenizer = load(file());
  EXPECT_THAT(testing::ids_of(tokenizer, "hello w"), ElementsAre(256, 257, 'o', 258));
  for (const std::string text : {"", "hello world", "你好 🦙", "\n\t ", "<s>hello</s>", "it's"}) {
    EXPECT_EQ(tokenizer.decode(testing::ids_of(tokenizer, text)), text);
  }
  EXPECT_EQ(tokenizer.vocab_size(), 262);
}

TEST(GgufTokenizer, TypesTellControlTokens) {
  const Tokenizer tokenizer = load(file());
  EXPECT_THAT(testing::ids_of(tokenizer, "<s>a<tool></s>"), ElementsAre(259, 'a', 261, 260));
  EXPECT_TRUE(tokenizer.is_special(259));
  EXPECT_FALSE(tokenizer.is_special(261));
  EXPECT_FALSE(tokenizer.is_special('a'));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{259, 'a', 261}, true), "a<tool>");
}

TEST(GgufTokenizer, RolesAndAddedTokens) {
  GgufBytes bytes = file();
  bytes.add("tokenizer.ggml.bos_token_id", 259u).add("tokenizer.ggml.eos_token_id", 260u);
  bytes.add_bool("tokenizer.ggml.add_bos_token", true).add_bool("tokenizer.ggml.add_eos_token", true);
  bytes.add("tokenizer.chat_template", "{{ messages }}");
  const Tokenizer tokenizer = load(bytes);
  EXPECT_EQ(tokenizer.bos_id(), 259);
  EXPECT_EQ(tokenizer.eos_token(), "</s>");
  EXPECT_EQ(tokenizer.pad_id(), std::nullopt);
  EXPECT_EQ(tokenizer.chat_template(), "{{ messages }}");
  EXPECT_THAT(tokenizer.encode("a").ids, ElementsAre(259, 'a', 260));
  EXPECT_THAT(tokenizer.encode("").ids, ElementsAre(259, 260));
}

TEST(GgufTokenizer, SavedAsJsonItIsTheSame) {
  GgufBytes bytes = file("qwen2");
  bytes.add("tokenizer.ggml.eos_token_id", 260u).add("tokenizer.chat_template", "x");
  const Tokenizer tokenizer = load(bytes);
  const duoka::testing::TemporaryFolder folder;
  tokenizer.save(folder.path());
  const Tokenizer again = Tokenizer::from_folder(folder.path());
  EXPECT_EQ(again.eos_id(), 260);
  EXPECT_EQ(again.chat_template(), "x");
  for (const io::Json& one : testing::recorded_parts("pre_tokenizers")[0]["cases"]) {
    EXPECT_EQ(testing::ids_of(again, one[0]), testing::ids_of(tokenizer, one[0])) << one[0];
  }
}

/// Whatever a pre-tokenizer's name means, no byte may be lost; where it composes (NFC), the composed text
/// comes back.
TEST(GgufTokenizer, EveryKnownPreGivesTextsBack) {
  for (const char* pre : {"default", "gpt-2", "smollm", "starcoder", "llama-bpe", "llama3", "llama-v3",
                          "falcon3", "qwen2", "deepseek-r1-qwen"}) {
    const Tokenizer tokenizer = load(file(pre));
    for (const io::Json& one : testing::recorded_parts("pre_tokenizers")[0]["cases"]) {
      const std::string text = one[0];
      const bool is_composed = gguf_pre(pre, "t").normalizer.is_object();
      AlignedText wanted(text);
      MatchState state;
      if (is_composed) make_unicode_form("NFC")->apply(wanted, state);
      EXPECT_EQ(tokenizer.decode(testing::ids_of(tokenizer, text)), wanted.view()) << pre;
    }
  }
}

TEST(GgufTokenizer, PreDecidesHowDigitsAreCut) {
  const auto num_tokens = [](const char* pre) {
    std::vector<std::string> with_numbers = tokens();
    with_numbers[256] = "12";
    with_numbers[257] = "123";
    GgufBytes bytes;
    bytes.add("tokenizer.ggml.model", "gpt2").add("tokenizer.ggml.pre", pre);
    bytes.add("tokenizer.ggml.tokens", with_numbers).add("tokenizer.ggml.token_type", types());
    bytes.add("tokenizer.ggml.merges", std::vector<std::string>{"1 2", "12 3"});
    return testing::ids_of(load(bytes), "12312").size();
  };
  EXPECT_EQ(num_tokens("gpt-2"), 2u);      // 123 12
  EXPECT_EQ(num_tokens("llama-bpe"), 2u);  // in threes
  EXPECT_EQ(num_tokens("smollm"), 5u);     // one by one
  EXPECT_EQ(num_tokens("qwen2"), 5u);
}

TEST(GgufTokenizer, SaysWhatIsWrong) {
  GgufBytes none;
  none.add("general.architecture", "llama");
  EXPECT_THAT(refusal(none), HasSubstr("tokenizer.ggml.model"));
  GgufBytes llama;
  llama.add("tokenizer.ggml.model", "llama");
  EXPECT_THAT(refusal(llama), HasSubstr("tokenizer.ggml.model \"llama\" is not supported, only \"gpt2\""));
  EXPECT_THAT(refusal(file("nope")),
              HasSubstr("tokenizer.ggml.pre \"nope\" is not known; known are default"));
  GgufBytes bytes;
  bytes.add("tokenizer.ggml.model", "gpt2");
  EXPECT_THAT(refusal(bytes), HasSubstr("tokenizer.ggml.tokens is missing or empty"));
  bytes.add("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  EXPECT_THAT(refusal(bytes), HasSubstr("tokenizer.ggml.merges is missing or empty"));
  GgufBytes counts = bytes;
  counts.add("tokenizer.ggml.token_type", std::vector<int32_t>{1});
  EXPECT_THAT(refusal(counts), HasSubstr("1 token types for 2 tokens"));
  GgufBytes one_sided = bytes;
  one_sided.add("tokenizer.ggml.merges", std::vector<std::string>{"ab"});
  EXPECT_THAT(refusal(one_sided), HasSubstr("merge 0 is \"ab\"; wanted two tokens"));
  GgufBytes unknown = bytes;
  unknown.add("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  EXPECT_THAT(refusal(unknown), HasSubstr("merge 0 speaks of \"ab\""));
  GgufBytes role = file();
  role.add("tokenizer.ggml.eos_token_id", 262u);
  EXPECT_THAT(refusal(role), HasSubstr("tokenizer.ggml.eos_token_id is 262; wanted 0 to 261"));
}

}  // namespace
}  // namespace duoka::data
