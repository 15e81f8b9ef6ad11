// SPDX-License-Identifier: Apache-2.0
// dataset_info.json in all its keys, and how names find files.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/data/dataset.h"
#include "support/test_files.h"

namespace duoka::data {
namespace {

using duoka::testing::message_of;
using duoka::testing::write_file;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class DatasetInfo : public ::testing::Test {
 protected:
  DatasetInfo() { write_file(folder_ / "a.json", "[]"); }
  std::vector<DataSource> find(const std::string& entry, const std::vector<std::string>& names = {"x"}) {
    write_file(folder_ / "dataset_info.json", "{\"x\": " + entry + "}");
    return find_sources(names, folder_.path().string());
  }
  RowFormat format(const std::string& rest) {
    return find("{\"file_name\": \"a.json\"" + rest + "}").at(0).format;
  }
  std::string refusal(const std::string& entry) {
    return message_of<DataError>([&] { find(entry); });
  }
  duoka::testing::TemporaryFolder folder_;
};

TEST_F(DatasetInfo, ShapeComesFromFormattingElseFromColumns) {
  EXPECT_EQ(format("").shape, RowShape::detect);
  EXPECT_EQ(format(R"(, "columns": {"prompt": "q"})").shape, RowShape::alpaca);
  EXPECT_EQ(format(R"(, "columns": {})").shape, RowShape::alpaca);
  EXPECT_EQ(format(R"(, "formatting": "alpaca")").shape, RowShape::alpaca);
  EXPECT_EQ(format(R"(, "formatting": "sharegpt")").shape, RowShape::sharegpt);
  EXPECT_EQ(format(R"(, "formatting": "openai")").shape, RowShape::openai);
}

TEST_F(DatasetInfo, EveryColumnAndTagArrives) {
  const RowFormat read = format(R"(, "columns": {"prompt": "p", "query": "q", "response": "r", "history": "h",
      "system": "s", "messages": "m", "tools": "t"}, "tags": {"role_tag": "1", "content_tag": "2", "user_tag": "3",
      "assistant_tag": "4", "system_tag": "5"})");
  EXPECT_EQ(
      read.prompt + read.query + read.response + read.history + read.system + read.messages + read.tools,
      "pqrhsmt");
  EXPECT_EQ(read.role_tag + read.content_tag + read.user_tag + read.assistant_tag + read.system_tag, "12345");
  const RowFormat bare = format(R"(, "tags": {"user_tag": null})");
  EXPECT_EQ(bare.user_tag + bare.prompt, "");
}

TEST_F(DatasetInfo, NamesFilesAndLimits) {
  const auto sources = find(R"({"file_name": "a.json", "num_samples": 3})");
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(sources[0].name, "x");
  EXPECT_EQ(sources[0].path, (folder_ / "a.json").string());
  EXPECT_EQ(sources[0].max_rows, 3);
  EXPECT_EQ(find(R"({"file_name": "a.json"})").at(0).max_rows, std::nullopt);
}

TEST_F(DatasetInfo, AFolderIsItsFilesByNameWithoutHiddenOnes) {
  std::filesystem::create_directories(folder_ / "parts/deeper");
  for (const char* name : {"b.jsonl", "a.jsonl", ".hidden", "dataset_info.json", "deeper/c.jsonl"}) {
    write_file(folder_ / "parts" / name, "{}");
  }
  const auto sources = find(R"({"file_name": "parts"})");
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_THAT(sources[0].path, EndsWith("parts/a.jsonl"));
  EXPECT_THAT(sources[1].path, EndsWith("parts/b.jsonl"));
  std::filesystem::create_directory(folder_ / "none");
  EXPECT_THAT(refusal(R"({"file_name": "none"})"), EndsWith("none: a folder without files"));
}

TEST_F(DatasetInfo, AnEntryGoesBeforeAFileOfItsName) {
  write_file(folder_ / "x", "{}");
  EXPECT_THAT(find(R"({"file_name": "a.json"})").at(0).path, EndsWith("a.json"));
  EXPECT_THAT(find(R"({"file_name": "a.json"})", {"x", "a.json", "x"}).size(), 3u);
}

TEST_F(DatasetInfo, PathsNeedNoEntry) {
  write_file(folder_ / "dataset_info.json", "{}");
  const std::string folder = folder_.path().string();
  EXPECT_EQ(find_sources({"a.json"}, folder).at(0).path, (folder_ / "a.json").string());
  EXPECT_EQ(find_sources({folder + "/a.json"}, "/nowhere").at(0).path, folder + "/a.json");
  EXPECT_TRUE(find_sources({}, folder).empty());
}

TEST_F(DatasetInfo, UnknownNamesAreTheUsersMistake) {
  const auto refused = [&](const std::string& name) {
    return message_of<ConfigError>([&] { find(R"({"file_name": "a.json"})", {name}); });
  };
  const std::string here = std::filesystem::current_path().string();
  EXPECT_THAT(refused("nope"),
              HasSubstr("dataset 'nope': no such file (in " + here + "), and no such entry in "));
  EXPECT_THAT(refused("/no/such"), HasSubstr("dataset '/no/such': no such file, and no such entry in "));
  EXPECT_THAT(refused("y"), HasSubstr("dataset 'y'"));
  EXPECT_THAT(refused(""), HasSubstr("dataset ''"));
}

TEST_F(DatasetInfo, EntriesThatCannotBeUsedSayWhy) {
  for (const char* key : {"hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name"}) {
    EXPECT_THAT(refusal("{\"" + std::string(key) + "\": \"u\"}"),
                HasSubstr("entry 'x': '" + std::string(key) +
                          "': data is not downloaded here; give a local 'file_name'"));
  }
  for (const char* column : {"chosen", "rejected", "kto_tag", "images", "videos", "audios"}) {
    EXPECT_THAT(refusal(R"({"file_name": "a.json", "columns": {")" + std::string(column) + R"(": "c"}})"),
                HasSubstr("column '" + std::string(column) + "' is not supported"));
  }
  EXPECT_THAT(refusal(R"({"file_name": "a.json", "ranking": true})"), HasSubstr("preference pairs"));
  EXPECT_NO_THROW(find(R"({"file_name": "a.json", "ranking": false, "hf_hub_url": "u"})"));
  EXPECT_THAT(refusal(R"({"file_name": "a.json", "formatting": "xml"})"),
              HasSubstr("formatting 'xml'; wanted alpaca, sharegpt or openai"));
  EXPECT_THAT(refusal(R"({"file_name": "a.json", "num_samples": 0})"),
              HasSubstr("num_samples = 0; wanted at least 1"));
  EXPECT_THAT(refusal(R"({"file_name": "gone.json"})"), HasSubstr("there is no file"));
  EXPECT_THAT(refusal("5"), HasSubstr("entry 'x': found no object"));
}

TEST_F(DatasetInfo, WrongTypesAreErrorsWithTheEntry) {
  for (const char* entry :
       {R"({})", R"({"file_name": 5})", R"({"file_name": "a.json", "columns": []})",
        R"({"file_name": "a.json", "columns": {"prompt": 1}})", R"({"file_name": "a.json", "tags": 1})",
        R"({"file_name": "a.json", "num_samples": "3"})", R"({"file_name": "a.json", "ranking": 1})",
        R"({"file_name": "a.json", "formatting": []})"}) {
    EXPECT_THAT(message_of<Error>([&] { find(entry); }), HasSubstr("entry 'x'")) << entry;
  }
  write_file(folder_ / "dataset_info.json", "[]");
  EXPECT_THAT(message_of<DataError>([&] { find_sources({"x"}, folder_.path().string()); }),
              HasSubstr("found no object"));
  write_file(folder_ / "dataset_info.json", "{");
  EXPECT_THAT(message_of<Error>([&] { find_sources({"x"}, folder_.path().string()); }),
              HasSubstr("dataset_info.json"));
}

}  // namespace
}  // namespace duoka::data
