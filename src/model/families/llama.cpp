// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3.x, and what took over its architecture unchanged: SmolLM2, Yi, TinyLlama, DeepSeek-LLM.
#include "duoka/model/config.h"
#include "duoka/model/families.h"

namespace duoka::model {

namespace {
void read(const io::Json& json, const std::string& origin, ModelConfig& config) {
  // attention_bias puts a bias on the output projection too, unlike Qwen2's.
  config.has_qkv_bias = io::optional_bool(json, "attention_bias", origin).value_or(false);
  config.has_output_bias = config.has_qkv_bias;
  config.has_mlp_bias = io::optional_bool(json, "mlp_bias", origin).value_or(false);
}
}  // namespace

const Family llama_family = {"llama", "LlamaForCausalLM", "llama", true, read};

}  // namespace duoka::model
