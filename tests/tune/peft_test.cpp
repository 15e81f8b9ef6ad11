// SPDX-License-Identifier: Apache-2.0
// Adapters of peft, in and out: case G01, and those of tools/record/peft_adapters.py.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/io/safetensors.h"
#include "duoka/tune/peft_files.h"
#include "support/golden.h"

namespace duoka::tune {
namespace {

using io::Json;
using model::Decoder;
using ::testing::AllOf;
using testing::fixture;
using ::testing::HasSubstr;
using testing::Row;

at::Tensor last_logits(Decoder& decoder, const Json& ids) {
  const Row row(ids.get<std::vector<int32_t>>());
  const auto last = at::full({1}, static_cast<int64_t>(row.ids.size()) - 1, at::kLong);
  return decoder.logits(testing::stream_of({row}), last)[0];
}

void expect_top(const at::Tensor& logits, const Json& top) {
  const auto [values, ids] = logits.topk(5);
  EXPECT_TRUE(ids.equal(at::tensor(top.at("ids").get<std::vector<int64_t>>()))) << ids;
  EXPECT_LT((values - at::tensor(top.at("logits").get<std::vector<float>>())).abs().max().item<double>(),
            2e-4);
}

// Same tensors, byte for byte.
void expect_same_tensors(const std::filesystem::path& found, const std::filesystem::path& wanted) {
  const auto a = io::SafetensorsFile::open(found / "adapter_model.safetensors");
  const auto b = io::SafetensorsFile::open(wanted / "adapter_model.safetensors");
  EXPECT_EQ(a.tensors().size(), b.tensors().size());
  for (const auto& view : b.tensors()) {
    const auto* mine = a.find(view.name);
    ASSERT_NE(mine, nullptr) << view.name;
    EXPECT_EQ(mine->dtype, view.dtype);
    EXPECT_EQ(mine->shape, view.shape) << view.name;
    EXPECT_TRUE(std::ranges::equal(mine->bytes, view.bytes)) << view.name;
  }
}

Json config_of(const std::filesystem::path& folder) {
  Json json = io::read_json_file(folder / "adapter_config.json");
  json.erase("peft_version");
  return json;
}

class Peft : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }
  testing::TemporaryFolder folder_;
};

TEST_F(Peft, CaseG01AdapterIn) {
  const Json expected = io::read_json_file(fixture("cases/G01_expected.json"));
  Decoder decoder = Decoder::load(fixture("cases/models/tiny-llama"));
  expect_top(last_logits(decoder, expected.at("prompt_ids")), expected.at("base_top5_last_position"));
  const auto adapter = read_peft_adapter(fixture("cases/G01_adapter"), decoder.config());
  EXPECT_EQ(adapter.modules.size(), 4u);
  EXPECT_EQ(adapter.modules[0].scale(), expected.at("scaling"));
  apply_adapter(decoder, adapter, false);
  expect_top(last_logits(decoder, expected.at("prompt_ids")), expected.at("adapter_top5"));
  for (const Parameter* parameter : decoder.parameters()) EXPECT_FALSE(parameter->is_trainable);
}

TEST_F(Peft, CaseG01AdapterOutIsTheFileThatCameIn) {
  const auto source = fixture("cases/G01_adapter");
  Decoder decoder = Decoder::load(fixture("cases/models/tiny-llama"));
  const auto adapter = read_peft_adapter(source, decoder.config());
  apply_adapter(decoder, adapter, true);
  write_peft_adapter(folder_.path(), decoder, adapter.selection, adapter.config.lora, "models/tiny-llama");
  expect_same_tensors(folder_.path(), source);
  const Json found = config_of(folder_.path()), wanted = config_of(source);
  for (const auto& [key, value] : wanted.items()) EXPECT_EQ(found.at(key), value) << key;
  EXPECT_EQ(found.size(), wanted.size());
}

class PeftGolden : public Peft, public ::testing::WithParamInterface<const char*> {};

TEST_P(PeftGolden, SameLogitsAndSameFile) {
  const Json record = testing::golden("peft_adapters.json");
  const Json& entry = record.at("cases").at(GetParam());
  const auto source = fixture("golden/peft") / GetParam();
  Decoder decoder = Decoder::load(fixture("models") / entry.at("model").get<std::string>());
  const auto adapter = read_peft_adapter(source, decoder.config());
  apply_adapter(decoder, adapter, true);
  const auto wanted = at::tensor(entry.at("logits").get<std::vector<float>>());
  EXPECT_LT((last_logits(decoder, record.at("ids")) - wanted).abs().max().item<double>(), 2e-4);
  write_peft_adapter(folder_.path(), decoder, adapter.selection, adapter.config.lora, "x");
  expect_same_tensors(folder_.path(), source);
  const auto again = read_peft_adapter(folder_.path(), decoder.config());
  ASSERT_EQ(again.modules.size(), adapter.modules.size());
  for (size_t i = 0; i < again.modules.size(); ++i)
    EXPECT_NEAR(again.modules[i].scale(), adapter.modules[i].scale(), 1e-12) << again.modules[i].name;
}

INSTANTIATE_TEST_SUITE_P(Cases, PeftGolden,
                         ::testing::Values("rslora_patterns", "saved_tied", "saved_untied"));

TEST_F(Peft, FreshAdapterIsWrittenAndReadAgain) {
  const auto path = fixture("cases/models/tiny-llama-tied");
  Decoder decoder = Decoder::load(path);
  const auto selection =
      select(decoder.config(), {.lora_target = "all", .additional_target = {"embed_tokens", "norm"}});
  const LoraConfig lora{.rank = 2, .alpha = 3, .dropout = 0.25, .use_rslora = true};
  apply_selection(decoder, selection, lora, 9);
  for (Parameter* parameter : decoder.parameters())
    if (parameter->is_trainable) parameter->value.add_(0.01);
  write_peft_adapter(folder_.path(), decoder, selection, lora, path.string());
  const Json json = config_of(folder_.path());
  EXPECT_EQ(json.at("modules_to_save"), Json({"embed_tokens", "model.norm"}));
  EXPECT_EQ(json.at("ensure_weight_tying"), true);
  EXPECT_EQ(json.at("lora_dropout"), 0.25);
  EXPECT_EQ(json.at("use_rslora"), true);
  Decoder again = Decoder::load(path);
  const auto adapter = read_peft_adapter(folder_.path(), again.config());
  EXPECT_EQ(adapter.selection.trainable_parameters, selection.trainable_parameters);
  apply_adapter(again, adapter, false);
  const Json ids = {1, 5, 9, 200};
  EXPECT_TRUE(last_logits(again, ids).equal(last_logits(decoder, ids)));
}

// Case G04: a vocabulary that grew. Refused with both sizes; its three names for one matrix are understood.
TEST_F(Peft, AdapterOfAnotherBaseByItsNameIsWarnedOf) {
  PeftAdapter adapter;
  const auto warning = [&](const char* recorded, const char* base) {
    adapter.config.base_model = recorded;
    return other_base_warning(adapter, base);
  };
  for (const auto& [recorded, base] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "models/a"},
           {"models/a", "/elsewhere/a/"},
           {"./models/a/", "a"},
           {"owner/a-7B", "hub/models--owner--a-7B/snapshots/0123"},
           {"hub/models--owner--a-7B/snapshots/0123", "a-7B"},
           {"owner/a-7B", "a-7B.Q4_1.gguf"},
           {"x/a-7B-Q4_K_M.gguf", "models/a-7B"}})
    EXPECT_EQ(warning(recorded, base), "") << recorded << " " << base;
  EXPECT_THAT(warning("owner/a-7B", "models/a-7B-Instruct"),
              AllOf(HasSubstr("made for owner/a-7B,"), HasSubstr("this base is models/a-7B-Instruct;")));
  EXPECT_THAT(warning("models/a-7B-Instruct", "a-7B"), HasSubstr("made for"));
  EXPECT_THAT(warning("owner/a-7B", "a-7B-Instruct.Q4_1.gguf"), HasSubstr("made for"));
}

TEST_F(Peft, CaseG04GrownVocabularyIsRefusedWithBothSizes) {
  const auto config = model::read_config(fixture("cases/models/tiny-llama"));
  const auto message = testing::message_of<FormatError>(
      [&] { read_peft_adapter(fixture("cases/G04_adapter_new_token"), config); });
  EXPECT_NE(message.find("[321, 32]"), std::string::npos) << message;
  EXPECT_NE(message.find("[320, 32]"), std::string::npos) << message;
}

class PeftRefusal : public Peft {
 protected:
  void SetUp() override {
    for (const char* name : {"adapter_config.json", "adapter_model.safetensors"})
      std::filesystem::copy(fixture("cases/G01_adapter") / name, folder_ / name);
    std::filesystem::permissions(folder_ / "adapter_config.json", std::filesystem::perms::owner_all);
  }
  // The message when `key` of the config is `value`.
  std::string error(const char* key, const Json& value, const char* model = "cases/models/tiny-llama") {
    Json json = io::read_json_file(fixture("cases/G01_adapter/adapter_config.json"));
    json[key] = value;
    testing::write_file(folder_ / "adapter_config.json", json.dump());
    const auto config = model::read_config(fixture(model));
    return testing::message_of<FormatError>([&] { read_peft_adapter(folder_.path(), config); });
  }
};

TEST_F(PeftRefusal, OtherArithmetic) {
  EXPECT_NE(error("peft_type", "IA3").find("\"IA3\" is not supported"), std::string::npos);
  EXPECT_NE(error("use_dora", true).find("use_dora"), std::string::npos);
  EXPECT_NE(error("bias", "all").find("bias = \"all\""), std::string::npos);
  EXPECT_NE(error("init_lora_weights", "pissa_niter_4").find("pissa"), std::string::npos);
  EXPECT_NE(error("trainable_token_indices", {1, 2}).find("trainable_token_indices"), std::string::npos);
}

TEST_F(PeftRefusal, AlphaThatIsNotAbove0) {
  for (const double alpha : {0.0, -8.0})
    EXPECT_NE(error("lora_alpha", alpha).find("lora_alpha = "), std::string::npos);
  EXPECT_NE(error("alpha_pattern", {{"q_proj", 0}}).find("alpha_pattern.q_proj = 0; wanted a number above 0"),
            std::string::npos);
}

TEST_F(PeftRefusal, FileAndConfigDisagree) {
  EXPECT_NE(error("r", 8).find("lora_A has shape [4, 32]; rank and base model want [8, 32]"),
            std::string::npos);
  EXPECT_NE(error("target_modules", {"q_proj", "k_proj"}).find("k_proj.lora_A"), std::string::npos);
  EXPECT_NE(error("modules_to_save", {"lm_head"}).find("names lm_head"), std::string::npos);
  EXPECT_NE(error("r", 4, "models/golden-llama").find("want [4, 32]") == std::string::npos &&
                error("r", 4, "models/golden-llama").find("lora_B has shape") == std::string::npos,
            true)
      << "an adapter of a model of another size";
}

TEST_F(PeftRefusal, MissingFiles) {
  const auto config = model::read_config(fixture("cases/models/tiny-llama"));
  std::filesystem::remove(folder_ / "adapter_model.safetensors");
  EXPECT_THROW(read_peft_adapter(folder_.path(), config), Error);
  testing::write_file(folder_ / "adapter_model.bin", "x");
  EXPECT_NE(
      testing::message_of<FormatError>([&] { read_peft_adapter(folder_.path(), config); }).find("pickle"),
      std::string::npos);
}

}  // namespace
}  // namespace duoka::tune
