// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/config.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/model/families.h"
#include "support/test_files.h"

namespace duoka::model {
namespace {

using io::Json;
using Kind = RopeConfig::Kind;

Json tiny(const std::string& family = "llama") {
  return {{"model_type", family},        {"vocab_size", 100},      {"hidden_size", 32},
          {"intermediate_size", 64},     {"num_hidden_layers", 4}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2},    {"rms_norm_eps", 1e-5},   {"max_position_embeddings", 256},
          {"tie_word_embeddings", false}};
}

Json with(Json json, const char* key, Json value) {
  json[key] = std::move(value);
  return json;
}

ModelConfig read(const Json& json) { return read_config(json, "here/config.json"); }

std::string error_of(const Json& json) {
  return testing::message_of<FormatError>([&] { read(json); });
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Config, NumbersAndDefaults) {
  const auto config = read(tiny());
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.rope.theta, 10000);
  EXPECT_EQ(config.rope.kind, Kind::standard);
  EXPECT_EQ(config.windows, std::vector<int64_t>(4, 0));
  EXPECT_EQ(config.dtype, io::DType::f32);
  EXPECT_EQ(read(with(tiny(), "torch_dtype", "bfloat16")).dtype, io::DType::bf16);
  EXPECT_EQ(read(with(tiny(), "dtype", "torch.float16")).dtype, io::DType::f16);
}

TEST(Config, Families) {
  EXPECT_FALSE(read(tiny("llama")).has_qkv_bias);
  EXPECT_TRUE(read(with(tiny("llama"), "attention_bias", true)).has_output_bias);
  EXPECT_TRUE(read(tiny("qwen2")).has_qkv_bias);
  EXPECT_FALSE(read(tiny("qwen2")).has_output_bias);
  EXPECT_TRUE(read(tiny("qwen3")).has_qk_norm);
  EXPECT_EQ(read(tiny("qwen3")).head_dim, 128);
  EXPECT_EQ(read(with(tiny("qwen3"), "head_dim", 16)).head_dim, 16);
}

TEST(Config, UnsupportedFamiliesAreRefusedByName) {
  for (const char* family : {"gpt2", "gemma", "gemma3", "mixtral", "deepseek_v3"}) {
    const auto message = error_of(tiny(family));
    expect_contains(message, std::string("\"") + family + "\"");
    expect_contains(message, "llama, mistral, qwen2, qwen3");
    expect_contains(message, "here/config.json");
  }
  const auto gpt2 =
      testing::message_of<FormatError>([] { read_config(testing::fixture("cases/models/tiny-gpt2")); });
  expect_contains(gpt2, "gpt2");
}

TEST(Config, ArchitecturesThatAreNoLanguageModels) {
  expect_contains(error_of(with(tiny(), "architectures", {"LlamaForSequenceClassification"})),
                  "LlamaForCausalLM");
  expect_contains(error_of(with(tiny(), "quantization_config", {{"quant_method", "gptq"}})), "gptq");
}

TEST(Config, ImpossibleNumbers) {
  expect_contains(error_of(with(tiny(), "num_hidden_layers", 2'000'000'000)), "num_hidden_layers");
  expect_contains(error_of(with(tiny(), "vocab_size", -1)), "vocab_size = -1");
  expect_contains(error_of(with(tiny(), "num_key_value_heads", 3)), "does not divide");
  expect_contains(error_of(with(tiny(), "num_key_value_heads", 0)), "does not divide");
  expect_contains(error_of(with(tiny(), "hidden_act", "relu")), "relu");
  expect_contains(error_of(with(tiny(), "head_dim", 7)), "wanted an even number");
  expect_contains(error_of(with(tiny(), "dtype", "int8")), "int8");
  Json missing = tiny();
  missing.erase("hidden_size");
  expect_contains(error_of(missing), "hidden_size");
}

TEST(Config, RopeOldAndNewSpelling) {
  const auto old_form =
      read(with(with(tiny(), "rope_theta", 5e5), "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}));
  const auto new_form =
      read(with(tiny(), "rope_parameters", {{"rope_type", "linear"}, {"rope_theta", 5e5}, {"factor", 2.0}}));
  for (const auto* config : {&old_form, &new_form}) {
    EXPECT_EQ(config->rope.kind, Kind::linear);
    EXPECT_EQ(config->rope.theta, 5e5);
    EXPECT_EQ(config->rope.factor, 2);
  }
}

TEST(Config, RopeLlama3AndYarn) {
  const auto llama3 = read(with(tiny(), "rope_scaling",
                                {{"rope_type", "llama3"},
                                 {"factor", 8.0},
                                 {"low_freq_factor", 1.5},
                                 {"high_freq_factor", 3.0},
                                 {"original_max_position_embeddings", 64}}));
  EXPECT_EQ(llama3.rope.low_freq_factor, 1.5);
  EXPECT_EQ(llama3.rope.high_freq_factor, 3);
  EXPECT_EQ(llama3.rope.original_max_positions, 64);
  const auto yarn =
      read(with(tiny(), "rope_scaling", {{"rope_type", "yarn"}, {"original_max_position_embeddings", 64}}));
  EXPECT_EQ(yarn.rope.factor, 4) << "of the two lengths when it is not given";
  expect_contains(error_of(with(tiny(), "rope_scaling", {{"type", "su"}, {"factor", 2}})), "su");
  expect_contains(error_of(with(tiny(), "rope_scaling", {{"type", "linear"}})), "factor");
  expect_contains(error_of(with(tiny(), "rope_parameters", {{"full_attention", {{"rope_type", "default"}}}})),
                  "layer type");
}

TEST(Config, Windows) {
  EXPECT_EQ(read(with(tiny("mistral"), "sliding_window", nullptr)).windows, std::vector<int64_t>(4, 0));
  EXPECT_EQ(read(with(tiny("mistral"), "sliding_window", 32)).windows, std::vector<int64_t>(4, 32));
  EXPECT_EQ(read(tiny("mistral")).windows, std::vector<int64_t>(4, 4096)) << "transformers' default";
  Json qwen = with(with(tiny("qwen2"), "sliding_window", 16), "max_window_layers", 3);
  EXPECT_EQ(read(qwen).windows, std::vector<int64_t>(4, 0)) << "use_sliding_window is off";
  qwen["use_sliding_window"] = true;
  EXPECT_EQ(read(qwen).windows, (std::vector<int64_t>{0, 0, 0, 16}));
  const char* full = "full_attention";
  qwen["layer_types"] = {full, "sliding_attention", full, full};
  EXPECT_EQ(read(qwen).windows, (std::vector<int64_t>{0, 16, 0, 0}));
  qwen["layer_types"] = {full};
  expect_contains(error_of(qwen), "1 entry for 4 layers");
  qwen["layer_types"] = {full, full, full, "linear_attention"};
  expect_contains(error_of(qwen), "linear_attention");
}

TEST(Config, TokenIds) {
  const auto config = read(with(with(tiny(), "eos_token_id", {7, 9, 7}), "bos_token_id", 3));
  EXPECT_EQ(config.eos_ids, (std::vector<int64_t>{7, 9}));
  EXPECT_EQ(config.bos_id, 3);
  const auto outside = read(with(tiny(), "eos_token_id", 100));
  EXPECT_TRUE(outside.eos_ids.empty());
  ASSERT_EQ(outside.warnings.size(), 1u);
  expect_contains(outside.warnings[0], "eos_token_id = 100");
  expect_contains(error_of(with(tiny(), "eos_token_id", "end")), "eos_token_id");
  EXPECT_EQ(read_config(testing::fixture("cases/models/tiny-llama")).eos_ids, (std::vector<int64_t>{1, 4}))
      << "config.json's and generation_config.json's together (case B03)";
}

TEST(Config, UnknownKeysSurviveARoundTrip) {
  Json json = with(tiny(), "my_own_key", {1, 2, 3});
  ModelConfig config = read(json);
  config.vocab_size = 101;
  config.dtype = io::DType::bf16;
  const Json written = Json::parse(config_text(config));
  EXPECT_EQ(written.at("my_own_key"), Json({1, 2, 3}));
  EXPECT_EQ(written.at("vocab_size"), 101);
  EXPECT_EQ(written.at("torch_dtype"), "bfloat16");
  EXPECT_FALSE(written.contains("head_dim")) << "nothing is added that was left to defaults";
}

TEST(Config, WrittenFromNothingReadsTheSame) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    Json json = with(with(tiny(family), "head_dim", 8), "sliding_window", 16);
    json["use_sliding_window"] = true;
    json["max_window_layers"] = 2;
    json["rope_scaling"] = {{"rope_type", "yarn"},
                            {"factor", 4.0},
                            {"original_max_position_embeddings", 64},
                            {"beta_fast", 16.0}};
    json["eos_token_id"] = {1, 4};
    ModelConfig config = read(json);
    config.source_json.clear();
    const auto again = read(Json::parse(config_text(config)));
    EXPECT_EQ(again.family, config.family);
    EXPECT_EQ(again.windows, config.windows) << family;
    EXPECT_EQ(again.eos_ids, config.eos_ids);
    EXPECT_EQ(again.rope.kind, Kind::yarn);
    EXPECT_EQ(again.rope.beta_fast, 16);
    EXPECT_EQ(again.has_qkv_bias, config.has_qkv_bias);
    EXPECT_EQ(again.norm_eps, config.norm_eps);
    EXPECT_EQ(num_parameters(again), num_parameters(config));
  }
}

TEST(Config, TensorsOfTheCasesModels) {
  const auto untied = read_config(testing::fixture("cases/models/tiny-llama"));
  EXPECT_EQ(num_parameters(untied), 39072);  // case G05
  EXPECT_EQ(tensors_of(untied).back().name, "lm_head.weight");
  const auto tied = read_config(testing::fixture("cases/models/tiny-llama-tied"));
  EXPECT_EQ(num_parameters(tied), 39072 - 320 * 32);
  EXPECT_EQ(tensors_of(tied).back().name, "model.norm.weight");
}

}  // namespace
}  // namespace duoka::model
