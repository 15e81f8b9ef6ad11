// SPDX-License-Identifier: Apache-2.0
#include "duoka/tune/merge.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/io/model_folder.h"
#include "duoka/model/export.h"
#include "duoka/model/weights.h"
#include "duoka/tune/peft_files.h"
#include "support/golden.h"

namespace duoka::tune {
namespace {

using io::Json;
using model::Decoder;
using testing::fixture;

const std::string q_proj = "model.layers.0.self_attn.q_proj.weight";

class Merge : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }
  std::filesystem::path make(const char* name) {
    std::filesystem::create_directory(folder_ / name);
    return folder_ / name;
  }
  testing::TemporaryFolder folder_;
};

std::vector<float> first_four(const io::ModelFolder& folder) {
  const auto config = model::read_config(folder);
  const auto values =
      model::open_weights(folder.path(), config)->read(q_proj)[0].narrow(0, 0, 4).to(at::kFloat);
  return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + 4};
}

TEST_F(Merge, CaseG01) {
  const Json expected = io::read_json_file(fixture("cases/G01_expected.json"));
  const auto base = fixture("cases/models/tiny-llama"), out = make("merged");
  merge_adapter(base, fixture("cases/G01_adapter"), out);
  Decoder merged = Decoder::load(out), before = Decoder::load(base);
  const testing::Row row(expected.at("prompt_ids").get<std::vector<int32_t>>());
  const auto [values, ids] = merged.logits(testing::stream_of({row}), at::tensor({int64_t{7}}))[0].topk(5);
  const Json& top = expected.at("merged_top5");
  EXPECT_TRUE(ids.equal(at::tensor(top.at("ids").get<std::vector<int64_t>>())));
  EXPECT_LT((values - at::tensor(top.at("logits").get<std::vector<float>>())).abs().max().item<double>(),
            2e-4);
  const auto wanted = expected.at("q_proj_layer0_[0][0:4]").at("merged").get<std::vector<float>>();
  const auto found = first_four(io::ModelFolder::open(out));
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6);
  for (const auto& [name, shape] : model::tensors_of(before.config())) {
    const bool is_adapted =
        name.find("q_proj") != std::string::npos || name.find("v_proj") != std::string::npos;
    EXPECT_EQ(merged.find(name)->value.equal(before.find(name)->value), !is_adapted) << name;
  }
  for (const auto& entry : std::filesystem::directory_iterator(out))
    EXPECT_EQ(entry.path().filename().string().find("adapter"), std::string::npos) << entry.path();
}

TEST_F(Merge, CaseG05KeepsTheDtypeOfTheBaseAndRoundsOnce) {
  const Json expected = io::read_json_file(fixture("cases/G05_expected.json"));
  Decoder decoder = Decoder::load(fixture("cases/models/tiny-llama"));
  const auto base = make("bf16"), out = make("merged");
  model::export_folder(base, decoder, {.dtype = at::kBFloat16});
  merge_adapter(base, fixture("cases/G01_adapter"), out);
  const auto folder = io::ModelFolder::open(out);
  int64_t num_bytes = 0;
  for (const auto& name : folder.names()) {
    EXPECT_EQ(folder.find(name)->dtype, io::DType::bf16) << name;
    num_bytes += folder.find(name)->num_bytes();
  }
  EXPECT_EQ(num_bytes, expected.at("tensor_bytes_bf16").get<int64_t>());
  EXPECT_EQ(folder.config().at("torch_dtype"), expected.at("config_dtype"));
  const auto wanted = expected.at("q_proj_layer0_[0][0:4]_rounded_once").get<std::vector<float>>();
  const auto found = first_four(folder);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], wanted[i], 1e-7);  // the file has seven digits
}

TEST_F(Merge, DtypeOptionWins) {
  const auto out = make("merged");
  merge_adapter(fixture("cases/models/tiny-llama"), fixture("cases/G01_adapter"), out, {.dtype = at::kHalf});
  const auto folder = io::ModelFolder::open(out);
  for (const auto& name : folder.names()) EXPECT_EQ(folder.find(name)->dtype, io::DType::f16) << name;
  EXPECT_EQ(folder.config().at("torch_dtype"), "float16");
}

TEST_F(Merge, SavedModulesReplaceTheBases) {
  for (const char* name : {"saved_tied", "saved_untied", "rslora_patterns"}) {
    const Json record = testing::golden("peft_adapters.json");
    const Json& entry = record.at("cases").at(name);
    const auto out = make(name);
    merge_adapter(fixture("models") / entry.at("model").get<std::string>(), fixture("golden/peft") / name,
                  out, {.dtype = at::kFloat});
    Decoder merged = Decoder::load(out);
    const testing::Row row(record.at("ids").get<std::vector<int32_t>>());
    const auto logits = merged.logits(testing::stream_of({row}), at::tensor({int64_t{8}}))[0];
    const auto wanted = at::tensor(entry.at("logits").get<std::vector<float>>());
    EXPECT_LT((logits - wanted).abs().max().item<double>(), 2e-4) << name;
  }
}

TEST_F(Merge, GgufBaseBecomesAFolder) {
  const Json record = testing::golden("peft_adapters.json");
  const auto out = make("merged");
  merge_adapter(fixture("models/golden-llama.gguf"), fixture("golden/peft/saved_tied"), out);
  EXPECT_EQ(io::ModelFolder::open(out).find(q_proj)->dtype, io::DType::f32) << "stored so in the GGUF file";
  Decoder merged = Decoder::load(out);
  const testing::Row row(record.at("ids").get<std::vector<int32_t>>());
  const auto wanted = at::tensor(record.at("cases").at("saved_tied").at("logits").get<std::vector<float>>());
  const auto logits = merged.logits(testing::stream_of({row}), at::tensor({int64_t{8}}))[0];
  EXPECT_LT((logits - wanted).abs().max().item<double>(), 2e-4);
}

TEST_F(Merge, AdapterOfAnotherModelIsRefused) {
  EXPECT_THROW(merge_adapter(fixture("models/golden-llama"), fixture("cases/G01_adapter"), make("merged")),
               FormatError);
}

}  // namespace
}  // namespace duoka::tune
