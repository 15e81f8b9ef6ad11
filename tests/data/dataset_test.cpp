// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/dataset.h"

#include <chrono>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "data/cache_stamp.h"
#include "data/tiny_tokenizer.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "support/cpu_time.h"

namespace duoka::data {
namespace {

using duoka::testing::message_of;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Row {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
};

Row row(const Dataset& dataset, int64_t index) {
  Row row;
  dataset.read(index, row.ids, row.labels);
  return row;
}

class DatasetTest : public ::testing::Test {
 protected:
  TinyData data_;
};

TEST_F(DatasetTest, Rows7AreThoseOfTheReference) {
  const json expected = json::parse(read_text_file(fixture("cases/rows7_expected.json")));
  const auto dataset = data_.open({"rows7.jsonl"}, TinyData::rules());
  ASSERT_EQ(dataset->num_rows(), 7);
  for (int64_t i = 0; i < 7; ++i) {
    const json& wanted = expected["rows"][static_cast<size_t>(i)];
    EXPECT_EQ(row(*dataset, i).ids, wanted["ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(row(*dataset, i).labels, wanted["labels"].get<std::vector<int32_t>>());
    EXPECT_EQ(dataset->length(i).num_trained, wanted["trained_tokens"].get<int32_t>());
  }
}

TEST_F(DatasetTest, CaseA04NullContentIsEmptyTextWithAWarning) {
  const json expected = json::parse(read_text_file(fixture("cases/A04_expected.json")));
  const auto dataset = data_.open({"A04_tool_calls_null.jsonl"}, TinyData::rules());
  ASSERT_EQ(dataset->num_rows(), 2);
  EXPECT_EQ(row(*dataset, 0).ids, expected["row1_ids"].get<std::vector<int32_t>>());
  const TokenCache& cache = dataset->parts()[0].cache;
  ASSERT_EQ(cache.warnings(10).size(), 1u);
  EXPECT_EQ(cache.warnings(10)[0].line, 1);
  ASSERT_EQ(cache.refusals(10).size(), 1u);
  EXPECT_EQ(cache.refusals(10)[0].line, 3);
  for (int64_t i = 0; i < 2; ++i) {
    const std::string words = data_.tokenizer().decode(row(*dataset, i).ids);
    EXPECT_EQ(words.find("None"), std::string::npos);
    EXPECT_EQ(words.find("null"), std::string::npos);
  }
}

TEST_F(DatasetTest, CaseA05CountsRowsAndGoesOn) {
  const auto dataset = data_.open({"A05_sharegpt_turns.jsonl"}, TinyData::rules());
  EXPECT_THAT(summary(dataset->counts()), HasSubstr("rows read 8, used 6, refused 2"));
  // Row 4: one answer of two tokens and its end of turn; the last user turn carries no loss.
  EXPECT_EQ(dataset->length(3).num_trained, 3);
  EXPECT_EQ(dataset->length(5).num_trained, 1);  // Row 8: an empty answer is its end of turn.
}

TEST_F(DatasetTest, CaseA06CutOnTheRight) {
  const json expected = json::parse(read_text_file(fixture("cases/A06_expected.json")));
  const auto full = data_.open({"A06_cutoff.jsonl"}, TinyData::rules());
  ASSERT_EQ(full->num_rows(), 4);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(full->length(i).num_tokens, expected["rows"][static_cast<size_t>(i)]["tokens"]);
    EXPECT_EQ(full->length(i).num_trained, expected["rows"][static_cast<size_t>(i)]["trained_tokens_full"]);
  }
  const auto cut = data_.open({"A06_cutoff.jsonl"}, TinyData::rules(32));
  ASSERT_EQ(cut->num_rows(), 3);  // Row 1 is dropped and counted.
  for (int64_t i = 0; i < 3; ++i) {
    const json& wanted = expected["rows"][static_cast<size_t>(i + 1)];
    EXPECT_EQ(cut->length(i).num_tokens, wanted["tokens_after_cut"]);
    EXPECT_EQ(cut->length(i).num_trained, wanted["trained_tokens_after_right_cut_at_32"]);
    EXPECT_EQ(cut->parts()[0].cache.full_tokens(i), wanted["tokens"]);
  }
  EXPECT_EQ(cut->counts().num_cut, 1);
  EXPECT_EQ(cut->counts().longest, 137);
  EXPECT_EQ(cut->counts().num_refused, 1);
  DatasetOptions strict;
  strict.is_strict = true;
  EXPECT_THAT(message_of<DataError>([&] { data_.open({"A06_cutoff.jsonl"}, TinyData::rules(32), strict); }),
              AllOf(HasSubstr("A06_cutoff.jsonl:1: prompt fills the cutoff"), HasSubstr("136")));
}

TEST_F(DatasetTest, CaseA06NothingUsable) {
  EXPECT_THAT(
      message_of<DataError>([&] { data_.open({"A06_all_bad.jsonl"}, TinyData::rules(32)); }),
      AllOf(HasSubstr("A06_all_bad.jsonl: 0 of 3 rows usable"), HasSubstr("prompt fills the cutoff")));
}

TEST_F(DatasetTest, CaseA07VeryLongRow) {
  std::string words;
  for (int i = 0; i < 700000; ++i) words += "the cat sat ";
  const auto line = [](const std::string& user, const std::string& answer) {
    return R"({"messages": [{"role": "user", "content": ")" + user +
           R"("}, {"role": "assistant", "content": ")" + answer + "\"}]}\n";
  };
  const std::string deep =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "x": )" +
      std::string(100000, '[') + std::string(100000, ']') + "}\n";
  const std::string path =
      write_into(data_.folder(), "long.jsonl",
                 line(words, "ok") + line("a", "b") + deep + line("c", "d") + line("e", "f"));
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  const double start = duoka::testing::cpu_seconds();
  const auto dataset = data_.open({path}, TinyData::rules(32));
  EXPECT_LT(duoka::testing::cpu_seconds() - start, 30);
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 1 << 20) << "KiB";
  EXPECT_EQ(dataset->num_rows(), 3);
  EXPECT_GT(dataset->counts().longest, 1000000);
  const auto refusals = dataset->parts()[0].cache.refusals(10);
  ASSERT_EQ(refusals.size(), 2u);
  EXPECT_THAT(std::string(refusals[0].text),
              AllOf(HasSubstr("prompt fills"), HasSubstr(counted(dataset->counts().longest, "token"))));
  EXPECT_EQ(refusals[1].line, 3);
  EXPECT_THAT(std::string(refusals[1].text), HasSubstr("nested deeper"));
}

TEST_F(DatasetTest, CaseA08PairsAreRefusedByName) {
  EXPECT_THAT(message_of<DataError>([&] { data_.open({"A08_pairs.jsonl"}, TinyData::rules()); }),
              HasSubstr("a preference pair (keys 'chosen', 'rejected')"));
}

TEST_F(DatasetTest, CaseB02EosIsTrained) {
  const json expected = json::parse(read_text_file(fixture("cases/B02_expected.json")));
  const auto dataset = data_.open({"B02_pad_eos.jsonl"}, TinyData::rules(2048, Stage::pt));
  ASSERT_EQ(dataset->num_rows(), 2);
  int64_t trained = 0;
  for (int64_t i = 0; i < 2; ++i) {
    const Row have = row(*dataset, i);
    auto ids = expected["input_ids"][static_cast<size_t>(i)].get<std::vector<int32_t>>();
    auto labels = expected["labels"][static_cast<size_t>(i)].get<std::vector<int32_t>>();
    ids.resize(have.ids.size());  // The reference is padded on the right; nothing is here.
    labels.resize(have.ids.size());
    EXPECT_EQ(have.ids, ids);
    EXPECT_EQ(have.labels, labels);
    EXPECT_EQ(have.ids.back(), 1);
    trained += dataset->length(i).num_trained;
  }
  EXPECT_EQ(trained, expected["trained_tokens"]);
}

TEST_F(DatasetTest, PlainTextIsARowALine) {
  const std::string path =
      write_into(data_.folder(), "prose", "the cat\n\nthe cat sat on the mat and the dog ran\n");
  const auto lines = data_.open({path}, TinyData::rules(2048, Stage::pt));
  const auto rows = data_.open({"B02_pad_eos.jsonl"}, TinyData::rules(2048, Stage::pt));
  ASSERT_EQ(lines->num_rows(), 2);
  for (int64_t i = 0; i < 2; ++i) EXPECT_EQ(row(*lines, i).ids, row(*rows, i).ids);
  EXPECT_THAT(message_of<DataError>([&] { data_.open({path}, TinyData::rules()); }),
              HasSubstr("plain text; stage sft"));
}

TEST_F(DatasetTest, PackedTextIsCutIntoPiecesAndNothingIsLost) {
  EncodeRules rules = TinyData::rules(5, Stage::pt);
  rules.is_chunking = true;
  const auto whole = data_.open({"B02_pad_eos.jsonl"}, TinyData::rules(2048, Stage::pt));
  const auto pieces = data_.open({"B02_pad_eos.jsonl"}, rules);
  ASSERT_EQ(pieces->num_rows(), 5);  // 5 tokens, and 17 as 5 + 5 + 5 + 2.
  std::vector<int32_t> joined;
  for (int64_t i = 1; i < 5; ++i) {
    const Row piece = row(*pieces, i);
    EXPECT_LE(piece.ids.size(), 5u);
    EXPECT_EQ(piece.labels.front(), -100);
    joined.insert(joined.end(), piece.ids.begin(), piece.ids.end());
  }
  EXPECT_EQ(joined, row(*whole, 1).ids);
  EXPECT_EQ(pieces->counts().num_cut, 0);
  EXPECT_EQ(data_.open({"B02_pad_eos.jsonl"}, TinyData::rules(5, Stage::pt))->counts().num_cut, 1);
}

TEST_F(DatasetTest, SeveralSetsOneAfterAnother) {
  const auto mixed = data_.open({"rows7.jsonl", "A05_sharegpt_turns.jsonl"}, TinyData::rules());
  EXPECT_EQ(mixed->num_rows(), 13);
  EXPECT_EQ(mixed->counts().num_read, 15);
  const auto second = data_.open({"A05_sharegpt_turns.jsonl"}, TinyData::rules());
  EXPECT_EQ(row(*mixed, 7).ids, row(*second, 0).ids);
  EXPECT_EQ(row(*mixed, 12).ids, row(*second, 5).ids);
  EXPECT_FALSE(second->parts()[0].cache.was_built());  // The mix made it already.
}

TEST_F(DatasetTest, MaxSamplesLooksAtTheFirstRows) {
  DatasetOptions options;
  options.max_samples = 3;
  EXPECT_EQ(data_.open({"rows7.jsonl"}, TinyData::rules(), options)->num_rows(), 3);
  options.max_samples = 100;
  EXPECT_EQ(data_.open({"rows7.jsonl"}, TinyData::rules(), options)->num_rows(), 7);
}

TEST_F(DatasetTest, AnyChangeOfRulesIsAnotherCache) {
  const auto path = [&](const EncodeRules& rules) {
    return data_.open({"rows7.jsonl"}, rules)->parts()[0].cache.path();
  };
  EncodeRules prompt = TinyData::rules();
  prompt.render.train_on_prompt = true;
  EXPECT_EQ(path(TinyData::rules()), path(TinyData::rules()));
  EXPECT_NE(path(TinyData::rules()), path(TinyData::rules(100)));
  EXPECT_NE(path(TinyData::rules()), path(prompt));
}

/// A model's folder and a data file that change between openings of the data set.
class EncoderIsOpened : public ::testing::Test {
 protected:
  EncoderIsOpened() {
    for (const auto& file : Tokenizer::files_of_folder(fixture("cases/models/tiny-llama")))
      if (std::filesystem::exists(file)) std::filesystem::copy_file(file, folder_ / file.filename());
    std::filesystem::copy_file(fixture("cases/rows7.jsonl"), rows_);
  }

  /// Opens the data set; returns whether the encoder was wanted for it.
  bool open() {
    std::optional<Tokenizer> tokenizer;
    std::optional<ChatTemplate> chat_template;
    std::optional<RowEncoder> encoder;
    EncoderSource source{Tokenizer::files_of_folder(folder_.path()), TinyData::rules().identity(), {}};
    source.open = [&]() -> const RowEncoder& {
      tokenizer = Tokenizer::from_folder(folder_.path());
      chat_template = ChatTemplate::parse(tokenizer->chat_template().value(), "model");
      return encoder.emplace(*tokenizer, &*chat_template, TinyData::rules());
    };
    std::vector<std::filesystem::path> files = source.files;
    files.push_back(rows_);
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      files.push_back(entry.path());
    while (!state_of_files(files).is_settled) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    DatasetOptions options;
    options.cache_folder = folder_.path().string();
    const Dataset dataset = Dataset::open(find_sources({rows_.string()}, ""), source, options, Log(1, 2));
    EXPECT_GT(dataset.num_rows(), 0);
    ids_.clear();
    dataset.read(0, ids_, labels_);
    return encoder.has_value();
  }

  TemporaryFolder folder_;
  std::filesystem::path rows_ = folder_ / "rows.jsonl";
  std::vector<int32_t> ids_, labels_;  // of the first row
};

TEST_F(EncoderIsOpened, UntilTheCacheHasBeenCheckedAndAfterAnyChange) {
  EXPECT_TRUE(open());  // makes the cache
  EXPECT_TRUE(open());  // checks it
  const std::vector<int32_t> first = ids_;
  EXPECT_FALSE(open());
  EXPECT_EQ(ids_, first);

  write_into(
      folder_, "chat_template.jinja",
      R"({% for m in messages %}{{ '<|im_start|>' + m['role'] + m['content'] + '<|im_end|>' }}{% endfor %})");
  EXPECT_TRUE(open());
  EXPECT_NE(ids_, first);
  EXPECT_TRUE(open());
  EXPECT_FALSE(open());

  std::ofstream(rows_, std::ios::app) << '\n';
  EXPECT_TRUE(open());
}

TEST_F(DatasetTest, SplitSharesNoRowAndFollowsTheSeed) {
  const auto dataset = data_.open({"rows7.jsonl"}, TinyData::rules());
  std::set<std::vector<int64_t>> different;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Split a = split(dataset, 2, seed);
    const Split b = split(dataset, 2, seed);
    ASSERT_EQ(a.train.size(), 5);
    ASSERT_EQ(a.held_out.size(), 2);
    std::set<int64_t> all;
    for (int64_t i = 0; i < 5; ++i) all.insert(a.train.id(i));
    for (int64_t i = 0; i < 2; ++i) {
      all.insert(a.held_out.id(i));
      EXPECT_EQ(a.held_out.id(i), b.held_out.id(i));
    }
    EXPECT_EQ(all.size(), 7u);
    different.insert({a.held_out.id(0), a.held_out.id(1)});
  }
  EXPECT_GT(different.size(), 3u);
  EXPECT_EQ(split(dataset, 0, 1).held_out.size(), 0);
}

// Case H03: a share of 0.01 of 7 rows is one row, never none in silence.
TEST(HeldOut, CaseH03AtLeastOneRowOrAnError) {
  EXPECT_EQ(num_held_out(0.01, 7), 1);
  EXPECT_EQ(num_held_out(0.5, 7), 4);
  EXPECT_EQ(num_held_out(3, 7), 3);
  EXPECT_THROW(num_held_out(7, 7), ConfigError);
  EXPECT_THROW(num_held_out(0.9, 1), ConfigError);
  EXPECT_THROW(num_held_out(1.5, 7), ConfigError);
  EXPECT_THROW(num_held_out(-0.1, 7), ConfigError);
}

class Sources : public ::testing::Test {
 protected:
  std::vector<DataSource> find(const std::string& info, const std::vector<std::string>& names) {
    write_into(folder_, "dataset_info.json", info);
    write_into(folder_, "a.json", "[]");
    return find_sources(names, folder_.path().string());
  }
  TemporaryFolder folder_;
};

TEST_F(Sources, EntryOfDatasetInfo) {
  const auto sources = find(R"({"chat": {"file_name": "a.json", "formatting": "sharegpt", "num_samples": 5,
      "columns": {"messages": "turns", "system": "sys"}, "tags": {"role_tag": "who", "user_tag": "me"}}})",
                            {"chat"});
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(sources[0].path, (folder_.path() / "a.json").string());
  EXPECT_EQ(sources[0].format.shape, RowShape::sharegpt);
  EXPECT_EQ(sources[0].format.messages, "turns");
  EXPECT_EQ(sources[0].format.system, "sys");
  EXPECT_EQ(sources[0].format.role_tag, "who");
  EXPECT_EQ(sources[0].format.user_tag, "me");
  EXPECT_EQ(sources[0].max_rows, 5);
}

TEST_F(Sources, PathsAndFolders) {
  EXPECT_EQ(find("{}", {"a.json"})[0].format.shape, RowShape::detect);
  std::filesystem::create_directory(folder_.path() / "parts");
  write_into(folder_, "parts/2.jsonl", "{}");
  write_into(folder_, "parts/1.jsonl", "{}");
  const auto sources = find("{}", {"parts"});
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_THAT(sources[0].path, HasSubstr("1.jsonl"));
}

TEST_F(Sources, UnknownNameAndUnsupportedEntries) {
  EXPECT_THAT(message_of<ConfigError>([&] { find(R"({"alpaca": {"file_name": "a.json"}})", {"alpacca"}); }),
              HasSubstr("nearest is 'alpaca'"));
  const auto refused = [&](const std::string& entry) {
    return message_of<DataError>([&] { find("{\"x\": " + entry + "}", {"x"}); });
  };
  EXPECT_THAT(refused(R"({"hf_hub_url": "u"})"), HasSubstr("'hf_hub_url'"));
  EXPECT_THAT(refused(R"({"file_name": "a.json", "ranking": true})"), HasSubstr("preference"));
  EXPECT_THAT(refused(R"({"file_name": "a.json", "columns": {"images": "i"}})"),
              HasSubstr("column 'images'"));
  EXPECT_THAT(refused(R"({"file_name": "b.json"})"), HasSubstr("there is no file"));
  EXPECT_THAT(refused(R"({"file_name": "a.json", "formatting": "xml"})"), HasSubstr("formatting 'xml'"));
}

}  // namespace
}  // namespace duoka::data
