// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/model_folder.h"

#include <cstdlib>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "support/test_files.h"

namespace duoka::io {
namespace {

namespace fs = std::filesystem;
using duoka::testing::fixture;
using duoka::testing::message_of;
using duoka::testing::names_in;
using duoka::testing::TemporaryFolder;
using duoka::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const fs::path& path) {
  return message_of<FormatError>([&] { ModelFolder::open(path); });
}

std::vector<std::byte> bytes_of(size_t count, int first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(static_cast<size_t>(first) + i);
  return bytes;
}

// ---- case F08: folders whose shards and index do not agree, made by the case's own script

class F08 : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    const std::string command = "python3 '" + fixture("cases/F08_make_folders.py").string() + "' '" +
                                folder_->path().string() + "' > /dev/null";
    is_made_ = std::system(command.c_str()) == 0;
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override { ASSERT_TRUE(is_made_) << "python3 could not run the case's script"; }

  static fs::path made(const char* name) { return folder_->path() / name; }
  /// All tensors of the model that the script cuts up are in `folder`, with the same bytes.
  static void expect_whole(const ModelFolder& folder) {
    const auto whole = SafetensorsFile::open(fixture("cases/models/tiny-llama-tied/model.safetensors"));
    EXPECT_EQ(folder.names().size(), whole.tensors().size());
    for (const TensorView& wanted : whole.tensors()) {
      const TensorView* found = folder.find(wanted.name);
      ASSERT_NE(found, nullptr) << wanted.name;
      EXPECT_EQ(found->shape, wanted.shape);
      EXPECT_TRUE(std::ranges::equal(found->bytes, wanted.bytes)) << wanted.name;
    }
  }

 private:
  static inline std::unique_ptr<TemporaryFolder> folder_;
  static inline bool is_made_ = false;
};

TEST_F(F08, ShardsWithTheirIndexAreOneModel) {
  const ModelFolder folder = ModelFolder::open(made("ok_sharded_tied"));
  expect_whole(folder);
  EXPECT_EQ(folder.files().size(), 2u);
  EXPECT_EQ(folder.find("lm_head.weight"), nullptr);  // tied: whoever knows the model decides
  EXPECT_EQ(require_string(folder.config(), "model_type", "config.json"), "llama");
  EXPECT_NE(folder.generation_config(), nullptr);
}

TEST_F(F08, ATensorTheIndexPromisesInVainIsAnErrorOnceAskedFor) {
  const ModelFolder folder = ModelFolder::open(made("tied_but_index_lists_lm_head"));
  expect_whole(folder);
  EXPECT_THAT(message_of<FormatError>([&] { folder.find("lm_head.weight"); }),
              AllOf(HasSubstr("lm_head.weight"), HasSubstr("model-00002-of-00002.safetensors")));
}

TEST_F(F08, AnUntiedModelWithoutItsHeadHasNoHead) {
  const ModelFolder folder = ModelFolder::open(made("untied_without_lm_head"));
  EXPECT_EQ(folder.find("lm_head.weight"), nullptr);
  EXPECT_FALSE(require_bool(folder.config(), "tie_word_embeddings", "config.json"));
}

TEST_F(F08, AMissingShardIsNamed) {
  EXPECT_THAT(refusal(made("missing_shard")), HasSubstr("model-00002-of-00002.safetensors is missing"));
  EXPECT_THAT(
      refusal(made("index_names_unknown_file")),
      AllOf(HasSubstr("model-00003-of-00002.safetensors is missing"), HasSubstr("model.extra.weight")));
}

TEST_F(F08, BothLayoutsAreRefused) {
  EXPECT_THAT(refusal(made("stale_single_file_beside_shards")), HasSubstr("remove whichever is stale"));
}

TEST_F(F08, ShardsWithoutAnIndexLoadWhenAllAreThere) {
  expect_whole(ModelFolder::open(made("shards_without_index")));
  fs::remove(made("shards_without_index") / "model-00001-of-00002.safetensors");
  EXPECT_THAT(refusal(made("shards_without_index")),
              AllOf(HasSubstr("no model.safetensors.index.json"), HasSubstr("is missing")));
}

TEST_F(F08, NoNameInTheIndexLeadsOutOfTheFolder) {
  EXPECT_THAT(refusal(made("escape_path_in_index")),
              AllOf(HasSubstr("../../etc/passwd"), HasSubstr("path separator")));
}

TEST_F(F08, OtherWaysOutOfTheFolderAreRefusedToo) {
  const fs::path index = made("ok_sharded_tied") / "model.safetensors.index.json";
  const std::string before = read_text_file(index);
  for (const char* name : {"..", ".", "", "/etc/passwd", "a/b.safetensors", "a\\\\b", "a\\u0000b"}) {
    write_file(index, std::string(R"({"weight_map": {"w": ")") + name + "\"}}");
    EXPECT_THAT(refusal(made("ok_sharded_tied")), HasSubstr("path separator")) << name;
  }
  write_file(index, R"({"weight_map": {"w": 1}})");
  EXPECT_THAT(refusal(made("ok_sharded_tied")), HasSubstr("wanted a file name"));
  write_file(index, R"({"weight_map": {}})");
  EXPECT_THAT(refusal(made("ok_sharded_tied")), HasSubstr("empty"));
  write_file(index, before);
}

// ---- folders that are no models

TEST(ModelFolder, SaysWhatAFolderIsInstead) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(folder / "gone"), HasSubstr("no such folder"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("no weights"));
  write_file(folder / "pytorch_model.bin", "PK");
  EXPECT_THAT(refusal(folder.path()), AllOf(HasSubstr("pytorch_model.bin"), HasSubstr("save_pretrained")));
  fs::remove(folder / "pytorch_model.bin");
  write_file(folder / "m.gguf", "GGUF");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("m.gguf"));
  EXPECT_THAT(refusal(folder / "m.gguf"), HasSubstr("not a folder"));
  fs::remove(folder / "m.gguf");
  write_file(folder / "adapter_config.json", "{}");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("is an adapter"));
}

TEST(ModelFolder, WeightsWithoutAConfigAreRefused) {
  const TemporaryFolder folder;
  fs::copy(fixture("cases/models/tiny-llama/model.safetensors"), folder / "model.safetensors");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("no config.json"));
  write_file(folder / "config.json", "[]");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("no JSON object"));
  write_file(folder / "config.json", "{}");
  const ModelFolder opened = ModelFolder::open(folder.path());
  EXPECT_EQ(opened.generation_config(), nullptr);
  EXPECT_EQ(opened.path(), folder.path());
}

TEST(ModelFolder, ATensorInTwoShardsIsRefused) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", "{}");
  for (const char* name : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"})
    fs::copy(fixture("cases/F06_safetensors/01_ok.safetensors"), folder / name);
  EXPECT_THAT(refusal(folder.path()), HasSubstr("the tensor a is in two files"));
}

// ---- writing

TEST(WeightsWriter, WritesOneFileWhenItFits) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", "{}");
  WeightsWriter writer(folder.path(), {{"a", DType::bf16, {2, 2}}, {"b", DType::bf16, {1}}});
  writer.write("a", bytes_of(8, 0));
  writer.write("b", bytes_of(2, 8));
  writer.commit();
  EXPECT_FALSE(fs::exists(folder / "model.safetensors.index.json"));
  EXPECT_THAT(ModelFolder::open(folder.path()).names(), ElementsAre("a", "b"));
}

TEST(WeightsWriter, DividesIntoShardsThatTheReaderJoins) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", "{}");
  const std::vector<TensorSpec> tensors{{"a", DType::u8, {4}},     {"b", DType::u8, {5}},
                                        {"huge", DType::u8, {50}}, {"none", DType::u8, {0}},
                                        {"c", DType::f16, {1}},    {"d", DType::u8, {7}}};
  WeightsWriter writer(folder.path(), tensors, 10);
  ASSERT_EQ(writer.tensors().size(), tensors.size());
  int first = 0;
  for (const TensorSpec& tensor : writer.tensors())
    writer.write(tensor.name, bytes_of(static_cast<size_t>(tensor.num_bytes()), first++));
  writer.commit();

  const ModelFolder opened = ModelFolder::open(folder.path());
  EXPECT_EQ(opened.files().size(), 3u);
  EXPECT_TRUE(fs::exists(folder / "model-00003-of-00003.safetensors"));
  first = 0;
  for (const TensorSpec& tensor : writer.tensors()) {
    const TensorView* found = opened.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(found->bytes, bytes_of(static_cast<size_t>(tensor.num_bytes()), first++)));
  }
  const Json index = read_json_file(folder / "model.safetensors.index.json");
  EXPECT_EQ(index["metadata"]["total_size"], 68);
  EXPECT_EQ(index["weight_map"]["huge"], "model-00002-of-00003.safetensors");
}

TEST(WeightsWriter, LeavesNothingOfAnEarlierSave) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", "{}");
  write_file(folder / "adapter_model.safetensors", "mine");
  for (const int64_t shard_bytes : {4, 100, 8, 4}) {
    WeightsWriter writer(folder.path(), {{"a", DType::u8, {4}}, {"b", DType::u8, {4}}, {"c", DType::u8, {4}}},
                         shard_bytes);
    for (const char* name : {"a", "b", "c"}) writer.write(name, bytes_of(4, 0));
    writer.commit();
    const ModelFolder opened = ModelFolder::open(folder.path());
    EXPECT_EQ(opened.files().size(), shard_bytes == 4 ? 3u : shard_bytes == 8 ? 2u : 1u);
    EXPECT_EQ(names_in(folder.path(), "model-").size(), shard_bytes == 4 ? 3u : shard_bytes == 8 ? 2u : 0u);
  }
  EXPECT_TRUE(fs::exists(folder / "adapter_model.safetensors"));
}

TEST(WeightsWriter, RefusesToFinishWithDataMissing) {
  const TemporaryFolder folder;
  WeightsWriter writer(folder.path(), {{"a", DType::u8, {4}}, {"b", DType::u8, {4}}}, 4);
  writer.write("a", bytes_of(4, 0));
  EXPECT_THAT(message_of<StateError>([&] { writer.commit(); }), HasSubstr("data of b is missing"));
  EXPECT_FALSE(fs::exists(folder / "model.safetensors.index.json"));
  EXPECT_THROW(WeightsWriter(folder.path(), {{"a", DType::u8, {}}, {"a", DType::u8, {}}}), StateError);
}

}  // namespace
}  // namespace duoka::io
