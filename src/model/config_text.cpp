// SPDX-License-Identifier: Apache-2.0
// ModelConfig -> config.json and generation_config.json.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "duoka/model/config.h"
#include "duoka/model/families.h"
#include "model/config_detail.h"

namespace duoka::model {

namespace {
using io::Json;

// The spelling before transformers 5 (rope_theta, rope_scaling), which 5 reads too.
Json rope_scaling(const RopeConfig& rope) {
  using Kind = RopeConfig::Kind;
  static constexpr std::array names = {"default", "linear", "dynamic", "llama3", "yarn"};
  if (rope.kind == Kind::standard) return nullptr;
  Json json = {{"rope_type", names[static_cast<size_t>(rope.kind)]}, {"factor", rope.factor}};
  if (rope.original_max_positions > 0) json["original_max_position_embeddings"] = rope.original_max_positions;
  if (rope.kind == Kind::llama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.kind == Kind::yarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    if (!rope.truncate) json["truncate"] = false;
    if (rope.attention_factor) json["attention_factor"] = *rope.attention_factor;
    if (rope.mscale) json["mscale"] = *rope.mscale;
    if (rope.mscale_all_dim) json["mscale_all_dim"] = *rope.mscale_all_dim;
  }
  return json;
}

void add_windows(const ModelConfig& config, Json& json) {
  const int64_t window = *std::ranges::max_element(config.windows);
  if (config.family == mistral_family.name) {
    json["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  } else if (window > 0) {
    json["use_sliding_window"] = true;
    json["sliding_window"] = window;
    for (const int64_t each : config.windows)
      json["layer_types"].push_back(each > 0 ? "sliding_attention" : "full_attention");
  }
}

Json ids(const std::vector<int64_t>& some) {
  if (some.empty()) return nullptr;
  return some.size() == 1 ? Json(some.front()) : Json(some);
}

Json id(const std::optional<int64_t>& one) { return one ? Json(*one) : Json(nullptr); }

Json whole_config(const ModelConfig& config) {
  const Family& family = family_of(config.family, "config");
  Json json = {{"architectures", {family.architecture}},
               {"model_type", config.family},
               {"vocab_size", config.vocab_size},
               {"hidden_size", config.hidden_size},
               {"intermediate_size", config.intermediate_size},
               {"num_hidden_layers", config.num_layers},
               {"num_attention_heads", config.num_heads},
               {"num_key_value_heads", config.num_kv_heads},
               {"head_dim", config.head_dim},
               {"hidden_act", config.activation == Activation::silu ? "silu" : "gelu_pytorch_tanh"},
               {"max_position_embeddings", config.max_positions},
               {"initializer_range", config.initializer_range},
               {"rms_norm_eps", config.norm_eps},
               {"rope_theta", config.rope.theta},
               {"rope_scaling", rope_scaling(config.rope)},
               {"tie_word_embeddings", config.tie_word_embeddings},
               {"bos_token_id", id(config.bos_id)},
               {"eos_token_id", ids(config.eos_ids)},
               {"torch_dtype", dtype_word(config.dtype)}};
  if (config.pad_id) json["pad_token_id"] = *config.pad_id;
  if (config.rope.partial_rotary_factor != 1)
    json["partial_rotary_factor"] = config.rope.partial_rotary_factor;
  if (config.family != qwen2_family.name) json["attention_bias"] = config.has_qkv_bias;
  if (config.family == llama_family.name) json["mlp_bias"] = config.has_mlp_bias;
  add_windows(config, json);
  return json;
}
}  // namespace

std::string config_text(const ModelConfig& config) {
  if (config.source_json.empty()) return whole_config(config).dump(2) + "\n";
  Json json = Json::parse(config.source_json);
  json["vocab_size"] = config.vocab_size;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json[json.contains("dtype") ? "dtype" : "torch_dtype"] = dtype_word(config.dtype);
  return json.dump(2) + "\n";
}

std::string generation_config_text(const ModelConfig& config) {
  if (!config.source_generation_json.empty())
    return Json::parse(config.source_generation_json).dump(2) + "\n";
  Json json = {{"bos_token_id", id(config.bos_id)}, {"eos_token_id", ids(config.eos_ids)}};
  if (config.pad_id) json["pad_token_id"] = *config.pad_id;
  return json.dump(2) + "\n";
}

}  // namespace duoka::model
