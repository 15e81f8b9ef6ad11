// SPDX-License-Identifier: Apache-2.0
// Ids against Hugging Face's tokenizers, as recorded by tools/record/tokenizers.py.
#include <cstdio>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/tokenizer_test_files.h"
#include "duoka/core/files.h"
#include "duoka/io/gguf.h"
#include "duoka/io/json.h"

namespace duoka::data {
namespace {

constexpr EncodeOptions plain{.add_special_tokens = false};

const io::Json& golden() {
  static const io::Json json = io::read_json_file(testing::fixtures() / "golden" / "tokenizer_ids.json");
  return json;
}

void append_code_point(uint32_t c, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

/// The recording script's Generator.
class Generator {
 public:
  Generator()
      : state_(golden()["seed"].get<uint64_t>()),
        fragments_(golden()["fragments"].get<std::vector<std::string>>()),
        ranges_(golden()["ranges"].get<std::vector<std::pair<uint32_t, uint32_t>>>()) {}

  std::string text() {
    std::string text;
    const uint64_t num_parts = 1 + below(16);
    for (uint64_t part = 0; part < num_parts; ++part) {
      if (below(10) < 8) {
        text += fragments_[below(fragments_.size())];
        continue;
      }
      const auto [low, high] = ranges_[below(ranges_.size())];
      const uint64_t num_characters = 1 + below(3);
      for (uint64_t i = 0; i < num_characters; ++i) {
        append_code_point(low + static_cast<uint32_t>(below(high - low + 1)), text);
      }
    }
    return text;
  }

 private:
  uint64_t below(uint64_t limit) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return (state_ >> 33) % limit;
  }

  uint64_t state_;
  std::vector<std::string> fragments_;
  std::vector<std::pair<uint32_t, uint32_t>> ranges_;
};

const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made;
    Generator generator;
    while (made.size() < golden()["num_texts"].get<size_t>()) made.push_back(generator.text());
    return made;
  }();
  return all;
}

/// FNV-1a over whole ids, each text closed by -1.
std::string hash_chunk(const Tokenizer& tokenizer, size_t first, size_t count) {
  uint64_t hash = 0xCBF29CE484222325U;
  const auto add = [&](int32_t id) { hash = (hash ^ static_cast<uint32_t>(id)) * 0x100000001B3U; };
  for (size_t i = first; i < first + count; ++i) {
    for (const int32_t id : tokenizer.encode(texts()[i], plain).ids) add(id);
    add(-1);
  }
  char hex[17];
  std::snprintf(hex, sizeof(hex), "%016llx", static_cast<unsigned long long>(hash));
  return hex;
}

void expect_recorded(const Tokenizer& tokenizer, const io::Json& hashes) {
  const size_t chunk = golden()["chunk"].get<size_t>();
  size_t num_wrong = 0;
  std::string where;
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (hash_chunk(tokenizer, i * chunk, chunk) == hashes[i].get<std::string>()) continue;
    ++num_wrong;
    where += " " + std::to_string(i);
  }
  EXPECT_EQ(num_wrong, 0U) << "of " << hashes.size() << " chunks of " << chunk << " texts differ:" << where;
}

TEST(TokenizerGolden, TheGeneratorIsThatOfTheScript) {
  EXPECT_EQ(std::vector<std::string>(texts().begin(), texts().begin() + 3),
            golden()["first_texts"].get<std::vector<std::string>>());
}

class Vocabularies : public ::testing::TestWithParam<const char*> {};

TEST_P(Vocabularies, GivesTheRecordedIds) {
  for (const io::Json& row : golden()["vocabularies"]) {
    if (row["name"] != GetParam()) continue;
    const bool is_asset = row["in_assets"].get<bool>();
    const std::filesystem::path path =
        (is_asset ? testing::assets() : testing::fixtures()) / row["path"].get<std::string>();
    if (is_asset && !std::filesystem::exists(path)) {
      GTEST_SKIP() << "no " << path << "; scripts/test fetches it";
    }
    const Tokenizer tokenizer =
        is_asset ? Tokenizer::from_gguf(io::GgufFile::open(path)) : Tokenizer::from_json_file(path);
    return expect_recorded(tokenizer, row["hashes"]);
  }
  FAIL() << GetParam() << " is not recorded";
}

INSTANTIATE_TEST_SUITE_P(TokenizerGolden, Vocabularies,
                         ::testing::Values("tiny-llama", "tok-bytefallback", "smollm2", "llama-bpe", "qwen2",
                                           "gpt-2"));

/// A small tokenizer with some members replaced and tokens added.
Tokenizer changed(const io::Json& row) {
  io::Json json =
      io::read_json_file(testing::model_folder(row["base"].get<std::string>()) / "tokenizer.json");
  for (const auto& [key, value] : row["members"].items()) json[key] = value;
  int64_t next = 0;
  for (const auto& [token, id] : json["model"]["vocab"].items()) next = std::max(next, id.get<int64_t>() + 1);
  for (io::Json token : row["added_tokens"]) {
    token["id"] = next++;
    json["added_tokens"].push_back(token);
  }
  const testing::TemporaryFolder folder;
  write_file_atomically(folder.path() / "tokenizer.json", json.dump());
  return Tokenizer::from_json_file(folder.path() / "tokenizer.json");
}

TEST(TokenizerGolden, EveryComponent) {
  for (const io::Json& row : golden()["components"]) {
    SCOPED_TRACE(row["name"].get<std::string>());
    expect_recorded(changed(row), row["hashes"]);
  }
}

/// llama.cpp's own samples: texts parted by a line, and their ids a line each.
TEST(TokenizerGolden, LlamaCppSamples) {
  int num_files = 0;
  for (const char* name : {"llama-bpe", "qwen2", "gpt-2"}) {
    const std::filesystem::path path =
        testing::assets() / "vocabs" / ("ggml-vocab-" + std::string(name) + ".gguf");
    if (!std::filesystem::exists(path)) continue;
    ++num_files;
    const Tokenizer tokenizer = Tokenizer::from_gguf(io::GgufFile::open(path));
    std::string samples = read_text_file(path.string() + ".inp");
    std::ifstream wanted(path.string() + ".out");
    constexpr std::string_view separator = "\n__ggml_vocab_test__\n";
    for (std::string line; std::getline(wanted, line);) {
      const size_t end = samples.find(separator);
      const std::string text = samples.substr(0, end);
      samples.erase(0, end == std::string::npos ? samples.size() : end + separator.size());
      std::vector<int32_t> ids;
      std::istringstream numbers(line);
      for (int32_t id = 0; numbers >> id;) ids.push_back(id);
      EXPECT_EQ(tokenizer.encode(text, plain).ids, ids) << name << ": " << text;
    }
  }
  if (num_files == 0) GTEST_SKIP() << "no .assets/vocabs; scripts/test fetches them";
}

TEST(TokenizerGolden, AGgufTokenizerSavedAsJsonIsTheSame) {
  const std::filesystem::path path = testing::assets() / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path << "; scripts/demo fetches it";
  const Tokenizer tokenizer = Tokenizer::from_gguf(io::GgufFile::open(path));
  const testing::TemporaryFolder folder;
  tokenizer.save(folder.path());
  const Tokenizer again = Tokenizer::from_folder(folder.path());
  EXPECT_EQ(hash_chunk(again, 0, 1000), hash_chunk(tokenizer, 0, 1000));
  EXPECT_EQ(again.eos_id(), tokenizer.eos_id());
  EXPECT_EQ(again.chat_template(), tokenizer.chat_template());
  EXPECT_EQ(again.vocab_size(), 49152);
}

}  // namespace
}  // namespace duoka::data
