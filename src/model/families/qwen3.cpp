// SPDX-License-Identifier: Apache-2.0
// Qwen3 (dense): q and k are normalised per head before the rotation.
#include "duoka/model/config.h"
#include "duoka/model/families.h"

namespace duoka::model {

namespace {
void read(const io::Json& json, const std::string& origin, ModelConfig& config) {
  config.has_qk_norm = true;
  config.has_qkv_bias = io::optional_bool(json, "attention_bias", origin).value_or(false);
  config.has_output_bias = config.has_qkv_bias;
  // Not hidden_size / heads as elsewhere: 128 is what transformers takes when the key is absent.
  config.head_dim = io::optional_int(json, "head_dim", origin).value_or(128);
  read_layer_windows(json, origin, config);
}
}  // namespace

const Family qwen3_family = {"qwen3", "Qwen3ForCausalLM", "qwen3", false, read};

}  // namespace duoka::model
