// SPDX-License-Identifier: Apache-2.0
// Pieces are cut where no token runs across: that changes no id.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/word_cuts.h"
#include "data/tokenizer_parts.h"

namespace duoka::data {
namespace {

using ::testing::ElementsAre;
using testing::ids_of;
using testing::load_tokenizer;
using testing::tokenizer_json;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  size_t below(size_t limit) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<size_t>(state_ >> 33) % limit;
  }

 private:
  uint64_t state_;
};

std::vector<size_t> cuts_of(const WordCuts& cuts, std::string_view piece) {
  std::vector<size_t> ends;
  for (size_t at = 0; at < piece.size(); ends.push_back(at)) at = cuts.word_end(piece, at);
  return ends;
}

/// Characters of one to four bytes that share bytes, so that tokens of parts of them occur.
const std::vector<std::string>& characters() {
  static const std::vector<std::string> all = {"a", "b", "é", "ê", "中", "丮", "乭", "于", "🦙", "🦚"};
  return all;
}

std::string random_text(Random& random, size_t max_characters) {
  std::string text;
  for (size_t count = 1 + random.below(max_characters); count > 0; --count) {
    text += characters()[random.below(characters().size())];
  }
  return text;
}

TEST(WordCuts, CutsWhereNoTokenRunsAcross) {
  WordCuts cuts;
  for (const char* token : {"ab", "中", "中国", "国b"}) cuts.add(token);
  EXPECT_THAT(cuts_of(cuts, "abab"), ElementsAre(2, 4));
  EXPECT_THAT(cuts_of(cuts, "ba"), ElementsAre(1, 2));
  EXPECT_THAT(cuts_of(cuts, "中国中b国b"), ElementsAre(6, 9, 10, 14));
  EXPECT_THAT(cuts_of(WordCuts(), "a中"), ElementsAre(1, 4));
}

TEST(WordCuts, SeesTokensOfPartsOfCharacters) {
  WordCuts cuts;
  cuts.add("\xAD\xE5\x9B");  // the end of 中 and most of 国
  EXPECT_THAT(cuts_of(cuts, "中国中a"), ElementsAre(6, 9, 10));
  EXPECT_THAT(cuts_of(cuts, "a国"), ElementsAre(1, 4));
}

/// Also in bytes that are no UTF-8, with characters of more bytes than a pair keeps.
TEST(WordCuts, NeverWithinAToken) {
  constexpr std::string_view bytes = "a\xE4\xB8\xAD\x80\xF0";
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string piece;
    for (size_t i = 0; i < 24; ++i) piece += bytes[random.below(bytes.size())];
    WordCuts cuts;
    std::vector<std::pair<size_t, size_t>> covered;
    for (int token = 0; token < 4; ++token) {
      const size_t begin = random.below(20), size = 2 + random.below(12);
      cuts.add(std::string_view(piece).substr(begin, size));
      covered.emplace_back(begin, std::min(begin + size, piece.size()));
    }
    for (const size_t cut : cuts_of(cuts, piece)) {
      for (const auto& [begin, end] : covered) ASSERT_TRUE(cut <= begin || cut >= end) << round;
    }
  }
}

std::string spelled(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_spelled(static_cast<uint8_t>(byte), out);
  return out;
}

/// A byte-level model, as bytes; the first 256 ids are the bytes.
struct ByteModel {
  std::vector<std::string> tokens;
  std::map<std::string, int32_t> ids;
  std::map<std::pair<int32_t, int32_t>, std::pair<size_t, int32_t>> merges;  ///< To rank and result.
  io::Json json_vocab = io::Json::object(), json_merges = io::Json::array();

  ByteModel() {
    for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  }

  int32_t add(const std::string& token) {
    const auto [entry, is_new] = ids.emplace(token, static_cast<int32_t>(tokens.size()));
    if (is_new) {
      json_vocab[spelled(token)] = tokens.size();
      tokens.push_back(token);
    }
    return entry->second;
  }

  void merge(int32_t left, int32_t right) {
    const std::string &first = tokens[static_cast<size_t>(left)], second = tokens[static_cast<size_t>(right)];
    if (merges.contains({left, right})) return;
    json_merges.push_back({spelled(first), spelled(second)});
    const int32_t result = add(std::string(first).append(second));
    merges.emplace(std::pair(left, right), std::pair(merges.size(), result));
  }

  /// The first of the pairs of lowest rank, again and again (Sennrich et al. 2016).
  std::vector<int32_t> encode_plainly(const std::string& piece) const {
    std::vector<int32_t> word;
    for (const char byte : piece) word.push_back(static_cast<uint8_t>(byte));
    while (true) {
      size_t best = merges.size(), at = 0;
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        const auto found = merges.find({word[i], word[i + 1]});
        if (found == merges.end() || found->second.first >= best) continue;
        best = found->second.first;
        at = i;
      }
      if (best == merges.size()) return word;
      word[at] = merges.at({word[at], word[at + 1]}).second;
      word.erase(word.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
  }

  Tokenizer load(bool ignores_merges) const {
    io::Json json = tokenizer_json(
        {{"type", "BPE"}, {"vocab", json_vocab}, {"merges", json_merges}, {"ignore_merges", ignores_merges}});
    json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    return load_tokenizer(json);
  }
};

/// Merges of neighbours in random texts, as training makes them; tokens start and end within characters.
ByteModel random_model(Random& random, size_t num_merges) {
  ByteModel model;
  while (model.merges.size() < num_merges) {
    const std::vector<int32_t> word = model.encode_plainly(random_text(random, 6));
    if (word.size() < 2) continue;
    const size_t at = random.below(word.size() - 1);
    model.merge(word[at], word[at + 1]);
  }
  return model;
}

TEST(WordCuts, ChangeNoIdOfRandomModels) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    const ByteModel model = random_model(random, 10 + random.below(60));
    const Tokenizer tokenizer = model.load(false), wholes = model.load(true);
    for (int round = 0; round < 300; ++round) {
      const std::string text = random_text(random, 40);
      const std::vector<int32_t> plain = model.encode_plainly(text);
      ASSERT_EQ(ids_of(tokenizer, text), plain) << "seed " << seed << ", " << text;
      const auto whole = model.ids.find(text);
      ASSERT_EQ(ids_of(wholes, text), whole == model.ids.end() ? plain : std::vector<int32_t>{whole->second})
          << "seed " << seed << ", " << text;
    }
  }
}

/// With ignore_merges a token that no merge makes is found as a whole piece, but not as a part of one,
/// whichever comes first.
TEST(WordCuts, APieceAndAPartOfOneAreKeptApart) {
  ByteModel model;
  model.merge('a', 'a');
  const int32_t cd = model.add("cd");
  const Tokenizer part_first = model.load(true), whole_first = model.load(true);
  EXPECT_THAT(ids_of(part_first, "cdaa"), ElementsAre('c', 'd', 256));
  EXPECT_THAT(ids_of(part_first, "cd"), ElementsAre(cd));
  EXPECT_THAT(ids_of(whole_first, "cd"), ElementsAre(cd));
  EXPECT_THAT(ids_of(whole_first, "cdaa"), ElementsAre('c', 'd', 256));
  EXPECT_THAT(ids_of(whole_first, "cd"), ElementsAre(cd));
}

/// A byte that the vocabulary lacks is dropped before merging, so no place next to it is safe.
TEST(WordCuts, NoneWhereABytesTokenIsMissing) {
  ByteModel model;
  model.merge('a', 'b');
  model.json_vocab.erase("x");
  EXPECT_THAT(ids_of(model.load(false), "axb"), ElementsAre(256));
}

}  // namespace
}  // namespace duoka::data
