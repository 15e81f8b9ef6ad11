// SPDX-License-Identifier: Apache-2.0
// Qwen2 and Qwen2.5: biases on q, k and v; a window on the upper layers where asked for.
#include "duoka/model/config.h"
#include "duoka/model/families.h"

namespace duoka::model {

namespace {
void read(const io::Json& json, const std::string& origin, ModelConfig& config) {
  config.has_qkv_bias = true;
  read_layer_windows(json, origin, config);
}
}  // namespace

const Family qwen2_family = {"qwen2", "Qwen2ForCausalLM", "qwen2", false, read};

}  // namespace duoka::model
