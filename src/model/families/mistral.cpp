// SPDX-License-Identifier: Apache-2.0
// Mistral 7B and later dense ones: Llama with a window over all layers. In GGUF files it goes by "llama".
#include "duoka/model/config.h"
#include "duoka/model/families.h"

namespace duoka::model {

namespace {
void read(const io::Json& json, const std::string& origin, ModelConfig& config) {
  config.windows.assign(static_cast<size_t>(config.num_layers), read_window(json, origin));
}
}  // namespace

const Family mistral_family = {"mistral", "MistralForCausalLM", "mistral", true, read};

}  // namespace duoka::model
