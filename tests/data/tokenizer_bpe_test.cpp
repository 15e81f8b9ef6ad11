// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tokenizer_parts.h"
#include "duoka/core/error.h"

namespace duoka::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ids_of;
using ::testing::IsEmpty;
using testing::load_tokenizer;
using testing::tokenizer_json;

io::Json model(std::initializer_list<const char*> vocab, const io::Json& merges) {
  io::Json ids = io::Json::object();
  for (const char* token : vocab) ids[token] = ids.size();
  return {{"type", "BPE"}, {"vocab", ids}, {"merges", merges}};
}

std::string refusal(const io::Json& model) {
  return duoka::testing::message_of<FormatError>([&] { load_tokenizer(tokenizer_json(model)); });
}

TEST(Bpe, IdsEqualHuggingFaces) {
  size_t num_cases = 0;
  for (const io::Json& part : testing::recorded_parts("models")) {
    const Tokenizer tokenizer = load_tokenizer(tokenizer_json(part["json"]));
    for (const io::Json& one : part["cases"]) {
      EXPECT_EQ(ids_of(tokenizer, one[0]), one[1].get<std::vector<int32_t>>())
          << part["name"] << " of " << one[0];
      ++num_cases;
    }
  }
  EXPECT_GT(num_cases, 200u);
}

/// A second call meets the word cache: it must not give other ids.
TEST(Bpe, TheCacheChangesNothing) {
  for (const io::Json& part : testing::recorded_parts("models")) {
    const Tokenizer tokenizer = load_tokenizer(tokenizer_json(part["json"]));
    for (int round = 0; round < 3; ++round) {
      for (const io::Json& one : part["cases"]) {
        ASSERT_EQ(ids_of(tokenizer, one[0]), one[1].get<std::vector<int32_t>>())
            << part["name"] << " of " << one[0] << " in round " << round;
      }
    }
  }
}

/// Merging by rank, the slow and obvious way (Sennrich et al. 2016): the first of the best pairs, again and
/// again.
std::vector<std::string> merge_plainly(const std::string& text, const io::Json& merges) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  while (true) {
    size_t best_rank = merges.size(), best_at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank][0] != parts[i] || merges[rank][1] != parts[i + 1]) continue;
        best_rank = rank;
        best_at = i;
      }
    }
    if (best_rank == merges.size()) return parts;
    parts[best_at] += parts[best_at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

TEST(Bpe, EqualsThePlainAlgorithmOnRandomWords) {
  const io::Json plain = testing::recorded_parts("models")[0]["json"];
  const Tokenizer tokenizer = load_tokenizer(tokenizer_json(plain));
  uint64_t state = 5;
  for (int round = 0; round < 500; ++round) {
    std::string word;
    do {
      state = state * 6364136223846793005U + 1442695040888963407U;
      word += static_cast<char>('a' + (state >> 33) % 4);
    } while ((state >> 40) % 24 != 0);
    std::vector<int32_t> wanted;
    for (const std::string& part : merge_plainly(word, plain["merges"]))
      wanted.push_back(plain["vocab"][part]);
    ASSERT_EQ(ids_of(tokenizer, word), wanted) << word;
  }
}

TEST(Bpe, BeginsAreWhereTokensBegin) {
  const Tokenizer tokenizer = load_tokenizer(tokenizer_json(testing::recorded_parts("models")[0]["json"]));
  const Encoding encoding = tokenizer.encode("abcdaad", {.add_special_tokens = false});
  EXPECT_THAT(encoding.ids, ElementsAre(8, 10, 3));
  EXPECT_THAT(encoding.begins, ElementsAre(0u, 4u, 6u));
}

TEST(Bpe, ByteLevelGivesEveryTextBack) {
  io::Json vocab = io::Json::object();
  std::vector<std::string> spelled;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte >= 33 && byte < 127) || (byte >= 161 && byte != 173);
    static int num_others = 0;
    const int code = is_itself ? byte : 256 + num_others++;
    std::string character;
    if (code < 0x80) {
      character = static_cast<char>(code);
    } else {
      character = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    }
    vocab[character] = byte;
  }
  io::Json json = tokenizer_json({{"type", "BPE"}, {"vocab", vocab}, {"merges", io::Json::array()}});
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  json["decoder"] = {{"type", "ByteLevel"}};
  const Tokenizer tokenizer = load_tokenizer(json);
  for (const io::Json& part : testing::recorded_parts("pre_tokenizers")) {
    for (const io::Json& one : part["cases"]) {
      const std::string text = one[0];
      const std::vector<int32_t> ids = ids_of(tokenizer, text);
      ASSERT_EQ(ids.size(), text.size());
      for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], static_cast<unsigned char>(text[i]));
      ASSERT_EQ(tokenizer.decode(ids), text);
    }
  }
}

TEST(Bpe, ByteFallbackGivesEveryTextBack) {
  const io::Json bytes = testing::recorded_parts("models")[3];
  ASSERT_EQ(bytes["name"], "bytes");
  io::Json json = tokenizer_json(bytes["json"]);
  json["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  const Tokenizer tokenizer = load_tokenizer(json);
  for (const std::string text :
       {"", "abcd", "你好 🦙", "\n\t\x01", "é", "a\u2028b", "<0x41>", "héllo wörld"}) {
    EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, text)), text);
  }
}

TEST(Bpe, ReadsMergesInBothForms) {
  const Tokenizer texts = load_tokenizer(tokenizer_json(model({"a", "b", "ab"}, {"a b"})));
  const Tokenizer pairs =
      load_tokenizer(tokenizer_json(model({"a", "b", "ab"}, io::Json::array({{"a", "b"}}))));
  EXPECT_THAT(ids_of(texts, "abab"), ElementsAre(2, 2));
  EXPECT_EQ(ids_of(texts, "aab"), ids_of(pairs, "aab"));
  EXPECT_THAT(ids_of(texts, ""), IsEmpty());
}

TEST(Bpe, RefusesModelsThatContradictThemselves) {
  EXPECT_THAT(refusal(model({"a", "b"}, {"a b"})),
              HasSubstr("merge 0 speaks of \"ab\", which the vocabulary does not have"));
  EXPECT_THAT(refusal(model({"a", "ab"}, {"a b"})), HasSubstr("merge 0 speaks of \"b\""));
  EXPECT_THAT(refusal(model({"a"}, {"a"})), HasSubstr("merge 0 is \"a\"; wanted \"a b\" or [\"a\", \"b\"]"));
  EXPECT_THAT(refusal(model({"a"}, {"a b c"})), HasSubstr("wanted \"a b\""));
  EXPECT_THAT(refusal(model({"a"}, io::Json::array({{"a", "b", "c"}}))), HasSubstr("merge 0 is"));
  EXPECT_THAT(refusal(model({"a"}, {5})), HasSubstr("merge 0 is 5"));
  io::Json json = model({"a"}, io::Json::array());
  json["unk_token"] = "<unk>";
  EXPECT_THAT(refusal(json), HasSubstr("unk_token \"<unk>\" is not in the vocabulary"));
  json = model({"a"}, io::Json::array());
  json["vocab"]["b"] = "x";
  EXPECT_THAT(refusal(json), HasSubstr("the id of token \"b\" is \"x\"; wanted a whole number"));
  json = model({"a"}, io::Json::array());
  json["vocab"]["b"] = 0;
  EXPECT_THAT(refusal(json), HasSubstr("tokenizer.json"));
  json["vocab"]["b"] = -1;
  EXPECT_THAT(refusal(json), HasSubstr("-1"));
  json["vocab"]["b"] = 4000000000;
  EXPECT_THAT(refusal(json), HasSubstr("4000000000"));
}

TEST(Bpe, RefusesWhatIsNotSupported) {
  for (const char* type : {"WordPiece", "Unigram", "WordLevel"}) {
    io::Json json = model({"a"}, io::Json::array());
    json["type"] = type;
    EXPECT_THAT(refusal(json),
                HasSubstr(std::string("model ") + type + " is not supported; duoka reads BPE"));
  }
  io::Json json = model({"a"}, io::Json::array());
  json["dropout"] = 0.1;
  EXPECT_THAT(refusal(json), HasSubstr("BPE dropout is not supported; set \"dropout\" to null"));
  json = model({"a"}, io::Json::array());
  json["end_of_word_suffix"] = "</w>";
  EXPECT_THAT(refusal(json), HasSubstr("end_of_word_suffix \"</w>\" is not supported"));
  json = model({"a"}, io::Json::array());
  json["continuing_subword_prefix"] = "##";
  EXPECT_THAT(refusal(json), HasSubstr("continuing_subword_prefix \"##\""));
}

}  // namespace
}  // namespace duoka::data
