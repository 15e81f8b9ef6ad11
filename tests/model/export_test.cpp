// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/export.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/io/model_folder.h"
#include "duoka/model/decoder.h"
#include "duoka/model/weights.h"
#include "support/golden.h"

namespace duoka::model {
namespace {

const testing::Row prompt(std::vector<int32_t>{0, 3, 9, 20, 8, 8, 26, 4});

at::Tensor last_logits(Decoder& decoder) {
  return decoder.logits(testing::stream_of({prompt}), at::tensor({int64_t{7}}));
}

void expect_same(Decoder& a, Decoder& b) {
  for (const auto& [name, shape] : tensors_of(a.config()))
    EXPECT_TRUE(a.find(name)->value.equal(b.find(name)->value)) << name;
  EXPECT_TRUE(last_logits(a).equal(last_logits(b)));
}

class Export : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }
  testing::TemporaryFolder folder_;
};

TEST_F(Export, FolderLoadsAgain) {
  Decoder decoder = Decoder::load(testing::fixture("cases/models/tiny-llama"));
  export_folder(folder_.path(), decoder);
  Decoder again = Decoder::load(folder_.path());
  expect_same(decoder, again);
  const auto before = io::read_json_file(testing::fixture("cases/models/tiny-llama/config.json"));
  EXPECT_EQ(io::read_json_file(folder_ / "config.json"), before);
  EXPECT_EQ(io::read_json_file(folder_ / "generation_config.json").at("eos_token_id"), io::Json({1, 4}));
}

TEST_F(Export, ShardsWithTheirIndex) {
  Decoder decoder = Decoder::load(testing::fixture("cases/models/tiny-llama"));
  export_folder(folder_.path(), decoder, {.max_shard_bytes = 60'000});
  EXPECT_GT(io::ModelFolder::open(folder_.path()).files().size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "model.safetensors.index.json"));
  Decoder again = Decoder::load(folder_.path());
  expect_same(decoder, again);
}

TEST_F(Export, TiedModelHasNoHead) {
  Decoder decoder = Decoder::load(testing::fixture("cases/models/tiny-llama-tied"));
  export_folder(folder_.path(), decoder);
  EXPECT_EQ(io::ModelFolder::open(folder_.path()).find("lm_head.weight"), nullptr);
  Decoder again = Decoder::load(folder_.path());
  expect_same(decoder, again);
}

TEST_F(Export, DtypeOptionIsInTheConfigToo) {
  Decoder decoder = Decoder::load(testing::fixture("cases/models/tiny-llama"));
  export_folder(folder_.path(), decoder, {.dtype = at::kBFloat16});
  const auto folder = io::ModelFolder::open(folder_.path());
  EXPECT_EQ(folder.config().at("torch_dtype"), "bfloat16");
  for (const auto& name : folder.names()) EXPECT_EQ(folder.find(name)->dtype, io::DType::bf16) << name;
  Decoder again = Decoder::load(folder_.path());
  for (const auto& [name, shape] : tensors_of(decoder.config()))
    EXPECT_TRUE(again.find(name)->value.equal(decoder.find(name)->value.to(at::kBFloat16).to(at::kFloat)))
        << name;
}

TEST_F(Export, FromGguf) {
  for (const char* family : {"llama", "qwen2"}) {
    const std::filesystem::path out = folder_ / family;
    std::filesystem::create_directory(out);
    Decoder decoder = Decoder::load(testing::fixture(std::string("models/golden-") + family + ".gguf"));
    export_folder(out, decoder);
    Decoder again = Decoder::load(out);
    expect_same(decoder, again);
    EXPECT_EQ(again.config().family, family);
    EXPECT_EQ(again.config().eos_ids, std::vector<int64_t>{1});
    EXPECT_EQ(again.config().max_positions, 64);
  }
}

TEST_F(Export, WrongShapesAreRefused) {
  const auto config = read_config(testing::fixture("cases/models/tiny-llama"));
  const ExportSource source{[](const std::string&) { return at::kFloat; },
                            [](const std::string&) { return at::zeros({1}); }};
  EXPECT_THROW(export_folder(folder_.path(), config, source), StateError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "config.json"));
}

}  // namespace
}  // namespace duoka::model
