// SPDX-License-Identifier: Apache-2.0
#include "duoka/tune/selection.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/model/decoder.h"
#include "duoka/tune/lora.h"
#include "support/test_files.h"

namespace duoka::tune {
namespace {

using Names = std::vector<std::string>;

model::ModelConfig untied() { return model::read_config(testing::fixture("cases/models/tiny-llama")); }
model::ModelConfig tied() { return model::read_config(testing::fixture("cases/models/tiny-llama-tied")); }

std::string error_of(const SelectionOptions& options, const model::ModelConfig& config = untied()) {
  return testing::message_of<ConfigError>([&] { select(config, options); });
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(MatchesSuffix, OnlyAtADot) {
  EXPECT_TRUE(matches_suffix("model.layers.0.self_attn.q_proj", "q_proj"));
  EXPECT_TRUE(matches_suffix("model.layers.0.self_attn.q_proj", "self_attn.q_proj"));
  EXPECT_TRUE(matches_suffix("lm_head", "lm_head"));
  EXPECT_FALSE(matches_suffix("model.layers.0.self_attn.q_proj", "proj"));
  EXPECT_FALSE(matches_suffix("q_proj", "self_attn.q_proj"));
}

TEST(Select, AllLinearModules) {
  const auto selection = select(untied(), {});
  EXPECT_EQ(selection.adapted_modules.size(), 14u);
  EXPECT_EQ(selection.adapted_modules.front(), "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(selection.target_modules,
            (Names{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}));
  EXPECT_TRUE(selection.trainable_parameters.empty());
}

TEST(Select, ListAndEndings) {
  const auto selection = select(untied(), {.lora_target = " q_proj , mlp.up_proj,"});
  EXPECT_EQ(selection.adapted_modules,
            (Names{"model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj",
                   "model.layers.1.self_attn.q_proj", "model.layers.1.mlp.up_proj"}));
  EXPECT_EQ(selection.target_modules, (Names{"q_proj", "mlp.up_proj"}));
}

TEST(Select, RegularExpression) {
  const auto selection = select(untied(), {.lora_target = R"(.*\.1\..*\.(q|v)_proj)"});
  EXPECT_EQ(selection.adapted_modules,
            (Names{"model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj"}));
  EXPECT_EQ(selection.target_regex, R"(.*\.1\..*\.(q|v)_proj)");
  EXPECT_TRUE(selection.target_modules.empty());
  expect_contains(error_of({.lora_target = "(q_proj"}), "no regular expression");
  expect_contains(error_of({.lora_target = "q_proj.*"}), "matches no module");
}

TEST(Select, UnknownTargetsNameTheModulesThereAre) {
  const auto message = error_of({.lora_target = "q_porj,v_proj"});
  expect_contains(message, "\"q_porj\"");
  expect_contains(message, "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj");
  expect_contains(message, "did you mean q_proj?");
  expect_contains(error_of({.lora_target = "lm_head"}), "additional_target");
  expect_contains(error_of({.additional_target = {"wte"}}), "embed_tokens");
  expect_contains(error_of({.lora_target = ""}), "nothing would train");
}

// Case D02: layer 2 frozen, and whole modules trained beside the adapter.
TEST(Select, CaseD02Variants) {
  const auto frozen = select(untied(), {.lora_target = "q_proj,v_proj", .freeze_trainable_layers = -1});
  EXPECT_EQ(frozen.adapted_modules,
            (Names{"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj"}));
  EXPECT_EQ(frozen.layers, std::vector<int64_t>{0});
  const auto whole =
      select(untied(), {.lora_target = "q_proj", .additional_target = {"lm_head", "embed_tokens"}});
  EXPECT_EQ(whole.saved_modules, (Names{"model.embed_tokens", "lm_head"}));
  EXPECT_EQ(whole.trainable_parameters, (Names{"model.embed_tokens.weight", "lm_head.weight"}));
}

TEST(Select, LayersFromTheEnd) {
  EXPECT_EQ(select(untied(), {.freeze_trainable_layers = 1}).layers, std::vector<int64_t>{1});
  const auto regex = select(untied(), {.lora_target = ".*q_proj", .freeze_trainable_layers = 1});
  EXPECT_EQ(regex.target_modules, Names{"model.layers.1.self_attn.q_proj"})
      << "peft wants a list beside layers";
  expect_contains(error_of({.freeze_trainable_layers = 3}), "the model has 2 layers");
  expect_contains(error_of({.freeze_trainable_layers = -3}), "the model has 2 layers");
}

TEST(Select, FullTraining) {
  const auto all = select(untied(), {.finetuning_type = FinetuningType::full});
  EXPECT_EQ(all.trainable_parameters.size(), model::tensors_of(untied()).size());
  EXPECT_TRUE(all.adapted_modules.empty());
  const auto last = select(
      untied(),
      {.finetuning_type = FinetuningType::full, .additional_target = {"norm"}, .freeze_trainable_layers = 1});
  EXPECT_EQ(last.trainable_parameters.size(), 10u) << "nine of the layer and the final norm";
  EXPECT_EQ(last.trainable_parameters.back(), "model.norm.weight");
  for (const auto& name : last.trainable_parameters) EXPECT_FALSE(name.starts_with("model.layers.0."));
}

TEST(Select, Contradictions) {
  expect_contains(error_of({.additional_target = {"lm_head"}}, tied()), "name embed_tokens");
  expect_contains(error_of({.lora_target = "q_proj", .additional_target = {"q_proj"}}),
                  "name it in one of them");
}

TEST(ApplySelection, AttachesAndMarks) {
  at::set_num_threads(1);
  model::Decoder decoder = model::Decoder::load(testing::fixture("cases/models/tiny-llama"));
  const auto selection =
      select(decoder.config(), {.lora_target = "v_proj", .additional_target = {"lm_head"}});
  apply_selection(decoder, selection, {.rank = 4}, 1);
  std::vector<std::string> trained;
  for (const Parameter* parameter : decoder.parameters())
    if (parameter->is_trainable) trained.push_back(parameter->name);
  EXPECT_EQ(trained,
            (Names{"base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight",
                   "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight",
                   "base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight",
                   "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight", "lm_head.weight"}));
  EXPECT_THROW(apply_selection(decoder, selection, {.rank = 4}, 1), StateError) << "there already";
}

}  // namespace
}  // namespace duoka::tune
