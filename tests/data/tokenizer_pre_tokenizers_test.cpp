// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer_parts.h"
#include "duoka/core/error.h"

namespace duoka::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Pieces = std::vector<std::string>;

Pieces cut(const io::Json& json, const std::string& text) {
  const PreTokenizer pre_tokenizer(&json, "t.json");
  AlignedText aligned(text);
  std::vector<TextPiece> pieces, spare;
  MatchState state;
  Section section{aligned, pieces, spare, state};
  pre_tokenizer.apply(section);
  Pieces out;
  for (const TextPiece& piece : pieces) out.emplace_back(section.view(piece));
  return out;
}

std::string refusal(const io::Json& json) {
  return duoka::testing::message_of<FormatError>([&] { PreTokenizer(&json, "t.json"); });
}

std::string joined(const Pieces& pieces) {
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  return all;
}

TEST(PreTokenizers, EqualHuggingFaces) {
  size_t num_cases = 0;
  for (const io::Json& part : testing::recorded_parts("pre_tokenizers")) {
    for (const io::Json& one : part["cases"]) {
      EXPECT_EQ(cut(part["json"], one[0]), one[1].get<Pieces>()) << part["name"] << " of " << one[0];
      ++num_cases;
    }
  }
  EXPECT_GT(num_cases, 600u);
}

/// A step that removes nothing gives the text back, in pieces that are not empty.
TEST(PreTokenizers, PiecesJoinedAreTheText) {
  for (const io::Json& part : testing::recorded_parts("pre_tokenizers")) {
    const std::string name = part["name"];
    const bool is_lossless = name.find("Removed") == std::string::npos && !name.starts_with("Whitespace") &&
                             !name.starts_with("Metaspace") && name != "ByteLevel with a space" &&
                             name != "Punctuation then words" && name != "Nested";
    for (const io::Json& one : part["cases"]) {
      const std::string text = one[0];
      const Pieces pieces = cut(part["json"], text);
      for (const std::string& piece : pieces) EXPECT_FALSE(piece.empty()) << name << " of " << one[0];
      if (is_lossless) {
        EXPECT_EQ(joined(pieces), text) << name;
      }
    }
  }
}

TEST(PreTokenizers, PiecesRiseAndDoNotOverlap) {
  for (const io::Json& part : testing::recorded_parts("pre_tokenizers")) {
    const PreTokenizer pre_tokenizer(&part["json"], "t.json");
    for (const io::Json& one : part["cases"]) {
      const std::string text = one[0];
      AlignedText aligned(text);
      std::vector<TextPiece> pieces, spare;
      MatchState state;
      Section section{aligned, pieces, spare, state};
      pre_tokenizer.apply(section);
      uint32_t end = 0;
      for (const TextPiece& piece : pieces) {
        ASSERT_LE(end, piece.begin) << part["name"] << " of " << text;
        ASSERT_LT(piece.begin, piece.end);
        end = piece.end;
      }
      ASSERT_LE(end, aligned.view().size());
    }
  }
}

TEST(PreTokenizers, NoneKeepsTheTextWhole) {
  const io::Json null;
  EXPECT_THAT(cut(null, "a b"), ElementsAre("a b"));
  EXPECT_THAT(cut(null, ""), IsEmpty());
  EXPECT_TRUE(PreTokenizer(nullptr, "t").is_empty());
  const io::Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  EXPECT_TRUE(PreTokenizer(&bytes, "t").is_byte_level());
}

TEST(PreTokenizers, SplitBehaviorsOfEveryPlace) {
  const auto split = [](SplitBehavior behavior, const std::vector<Part>& parts) {
    std::vector<TextPiece> out;
    append_split(parts, behavior, out);
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    for (const TextPiece& piece : out) pairs.emplace_back(piece.begin, piece.end);
    return pairs;
  };
  using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;
  // "a--b-" : the dashes match.
  const std::vector<Part> parts = {
      {{0, 1}, false}, {{1, 2}, true}, {{2, 3}, true}, {{3, 4}, false}, {{4, 5}, true}};
  EXPECT_EQ(split(SplitBehavior::removed, parts), (Pairs{{0, 1}, {3, 4}}));
  EXPECT_EQ(split(SplitBehavior::isolated, parts), (Pairs{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}));
  EXPECT_EQ(split(SplitBehavior::merged_with_previous, parts), (Pairs{{0, 2}, {2, 3}, {3, 5}}));
  EXPECT_EQ(split(SplitBehavior::merged_with_next, parts), (Pairs{{0, 1}, {1, 2}, {2, 4}, {4, 5}}));
  EXPECT_EQ(split(SplitBehavior::contiguous, parts), (Pairs{{0, 1}, {1, 3}, {3, 4}, {4, 5}}));
  EXPECT_EQ(split(SplitBehavior::removed, {}), Pairs{});
}

TEST(PreTokenizers, RefusesWhatItCannotDo) {
  EXPECT_THAT(
      refusal({{"type", "BertPreTokenizer"}}),
      HasSubstr("t.json: pre-tokenizer BertPreTokenizer is not supported; supported are ByteLevel, Split"));
  EXPECT_THAT(refusal(io::Json::object()), HasSubstr("type"));
  const io::Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const io::Json metaspace = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "never"}};
  const auto sequence = [](const io::Json& a, const io::Json& b) {
    return io::Json{{"type", "Sequence"}, {"pretokenizers", io::Json::array({a, b})}};
  };
  EXPECT_THAT(refusal(sequence(bytes, bytes)), HasSubstr("two ByteLevel pre-tokenizers; wanted one at most"));
  EXPECT_THAT(refusal(sequence(bytes, metaspace)), HasSubstr("Metaspace after ByteLevel"));
  EXPECT_THAT(refusal({{"type", "Metaspace"}, {"replacement", ""}}), HasSubstr("empty replacement"));
  EXPECT_THAT(refusal({{"type", "Split"}, {"pattern", {{"Regex", "[a"}}}, {"behavior", "Isolated"}}),
              HasSubstr("t.json"));
  EXPECT_THAT(refusal({{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Sideways"}}),
              HasSubstr("Sideways"));
  EXPECT_THAT(refusal({{"type", "Split"}, {"behavior", "Isolated"}}), HasSubstr("pattern"));
}

}  // namespace
}  // namespace duoka::data
