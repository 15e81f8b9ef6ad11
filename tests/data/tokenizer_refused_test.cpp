// SPDX-License-Identifier: Apache-2.0
// What is not supported or wrong in a tokenizer's files is refused by name.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/tokenizer/regex.h"
#include "data/tokenizer_test_files.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/io/json.h"

namespace duoka::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

io::Json tiny_json() { return io::read_json_file(testing::model_folder("tiny-llama") / "tokenizer.json"); }

/// Message of the FormatError that loading the changed tokenizer throws.
std::string refusal(const std::function<void(io::Json&)>& change) {
  io::Json json = tiny_json();
  change(json);
  const testing::TemporaryFolder folder;
  write_file_atomically(folder.path() / "tokenizer.json", json.dump());
  try {
    Tokenizer::from_folder(folder.path());
  } catch (const FormatError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(TokenizerRefused, UnknownComponentsByNameAndFile) {
  for (const char* member : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    EXPECT_THAT(refusal([&](io::Json& json) {
                  json[member] = {{"type", "Wonderful"}};
                }),
                AllOf(HasSubstr("Wonderful"), HasSubstr("tokenizer.json")))
        << member;
  }
}

TEST(TokenizerRefused, OtherModels) {
  for (const char* type : {"Unigram", "WordPiece"}) {
    EXPECT_THAT(refusal([&](io::Json& json) { json["model"]["type"] = type; }), HasSubstr(type));
  }
  EXPECT_THAT(refusal([](io::Json& json) { json.erase("model"); }), HasSubstr("\"model\""));
  EXPECT_THAT(refusal([](io::Json& json) { json["model"]["end_of_word_suffix"] = "</w>"; }),
              HasSubstr("</w>"));
  EXPECT_THAT(refusal([](io::Json& json) { json["model"]["dropout"] = 0.1; }), HasSubstr("dropout"));
}

TEST(TokenizerRefused, BrokenVocabulariesAndMerges) {
  EXPECT_THAT(refusal([](io::Json& json) { json["model"]["vocab"]["zzz"] = 2'000'000'000; }),
              HasSubstr("2000000000"));
  EXPECT_THAT(refusal([](io::Json& json) { json["model"]["vocab"]["zzz"] = -1; }), HasSubstr("-1"));
  EXPECT_THAT(refusal([](io::Json& json) { json["model"]["vocab"]["zzz"] = 7; }), HasSubstr("two tokens"));
  EXPECT_THAT(refusal([](io::Json& json) { json["model"]["vocab"]["zzz"] = "7"; }),
              HasSubstr("whole number"));
  EXPECT_THAT(refusal([](io::Json& json) {
                json["model"]["merges"].push_back({"zz", "y"});
              }),
              HasSubstr("\"zz\""));
  EXPECT_THAT(refusal([](io::Json& json) { json["model"]["merges"].push_back("a b c"); }),
              HasSubstr("a b c"));
  EXPECT_THAT(refusal([](io::Json& json) { json["model"]["unk_token"] = "nope"; }), HasSubstr("nope"));
  EXPECT_THAT(refusal([](io::Json& json) { json["added_tokens"][1]["id"] = 0; }), HasSubstr("two"));
  EXPECT_THAT(
      refusal([](io::Json& json) { json["post_processor"]["special_tokens"]["<|bos|>"]["ids"] = {999}; }),
      HasSubstr("999"));
}

TEST(TokenizerRefused, AFolderWithoutTokenizerJson) {
  const testing::TemporaryFolder folder;
  EXPECT_THROW(Tokenizer::from_folder(folder.path()), FormatError);
}

TEST(TokenizerRefused, TornJson) {
  const testing::TemporaryFolder folder;
  const std::string whole = tiny_json().dump();
  for (size_t size = 0; size < whole.size(); size += 997) {
    write_file_atomically(folder.path() / "tokenizer.json", whole.substr(0, size));
    EXPECT_THROW(Tokenizer::from_folder(folder.path()), FormatError) << size;
  }
}

TEST(TokenizerRefused, PatternsThatWouldMeanSomethingElse) {
  for (const char* pattern :
       {"[a&&b]", "[a[bc]]", "[]a]", "\\p{N}{1,3}+", "[\\W]", "\\H", "(", "[a", "\\p{Nope}"}) {
    EXPECT_THROW(Regex(pattern, "file"), FormatError) << pattern;
  }
}

TEST(TokenizerRegex, SpaceIsUnicodesWhiteSpace) {
  MatchState state;
  const Regex space("\\s", "file");
  for (const char* yes : {" ", "\t", "\r", "\u0085", "\u00A0", "\u2003", "\u2028", "\u3000"}) {
    EXPECT_TRUE(space.find(yes, 0, state)) << yes;
  }
  for (const char* no : {"\u180E", "\u200B", "\uFEFF", "\x1c", "a"})
    EXPECT_FALSE(space.find(no, 0, state)) << no;
}

TEST(TokenizerRegex, LineAnchorsAndOffsets) {
  MatchState state;
  const auto match = Regex("^b+$", "file").find("a\nbb\nc", 0, state);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->begin, 2U);
  EXPECT_EQ(match->end, 4U);
}

}  // namespace
}  // namespace duoka::data
