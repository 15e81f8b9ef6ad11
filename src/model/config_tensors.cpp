// SPDX-License-Identifier: Apache-2.0
// The tensors of a model, by name and shape.
#include <numeric>

#include "duoka/core/text.h"
#include "duoka/model/config.h"

namespace duoka::model {

BlockConfig ModelConfig::block(int64_t layer) const {
  BlockConfig block;
  block.attention.hidden_size = hidden_size;
  block.attention.num_heads = num_heads;
  block.attention.num_kv_heads = num_kv_heads;
  block.attention.head_dim = head_dim;
  block.attention.sliding_window = windows.at(static_cast<size_t>(layer));
  block.attention.has_qkv_bias = has_qkv_bias;
  block.attention.has_output_bias = has_output_bias;
  block.attention.has_qk_norm = has_qk_norm;
  block.attention.norm_eps = norm_eps;
  block.mlp.hidden_size = hidden_size;
  block.mlp.intermediate_size = intermediate_size;
  block.mlp.activation = activation;
  block.mlp.has_bias = has_mlp_bias;
  block.norm_eps = norm_eps;
  return block;
}

namespace {
struct LinearShape {
  const char* name;
  std::vector<int64_t> shape;
  bool has_bias;
};

std::vector<LinearShape> linears_of_block(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, ffn = config.intermediate_size;
  const int64_t q = config.num_heads * config.head_dim, kv = config.num_kv_heads * config.head_dim;
  return {{"self_attn.q_proj", {q, hidden}, config.has_qkv_bias},
          {"self_attn.k_proj", {kv, hidden}, config.has_qkv_bias},
          {"self_attn.v_proj", {kv, hidden}, config.has_qkv_bias},
          {"self_attn.o_proj", {hidden, q}, config.has_output_bias},
          {"mlp.gate_proj", {ffn, hidden}, config.has_mlp_bias},
          {"mlp.up_proj", {ffn, hidden}, config.has_mlp_bias},
          {"mlp.down_proj", {hidden, ffn}, config.has_mlp_bias}};
}
}  // namespace

std::vector<TensorShape> linear_modules(const ModelConfig& config) {
  std::vector<TensorShape> modules;
  const auto linears = linears_of_block(config);
  for (int64_t layer = 0; layer < config.num_layers; ++layer)
    for (const auto& linear : linears)
      modules.push_back({text("model.layers.", layer, ".", linear.name), linear.shape});
  return modules;
}

std::vector<TensorShape> tensors_of(const ModelConfig& config) {
  std::vector<TensorShape> tensors;
  const std::vector<int64_t> hidden = {config.hidden_size}, head = {config.head_dim};
  const auto linears = linears_of_block(config);
  tensors.push_back({"model.embed_tokens.weight", {config.vocab_size, config.hidden_size}});
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const std::string prefix = text("model.layers.", layer, ".");
    tensors.push_back({prefix + "input_layernorm.weight", hidden});
    tensors.push_back({prefix + "post_attention_layernorm.weight", hidden});
    for (const auto& linear : linears) {
      tensors.push_back({prefix + linear.name + ".weight", linear.shape});
      if (linear.has_bias) tensors.push_back({prefix + linear.name + ".bias", {linear.shape[0]}});
    }
    if (!config.has_qk_norm) continue;
    tensors.push_back({prefix + "self_attn.q_norm.weight", head});
    tensors.push_back({prefix + "self_attn.k_norm.weight", head});
  }
  tensors.push_back({"model.norm.weight", hidden});
  if (!config.tie_word_embeddings)
    tensors.push_back({"lm_head.weight", {config.vocab_size, config.hidden_size}});
  return tensors;
}

int64_t num_parameters(const ModelConfig& config) {
  int64_t sum = 0;
  for (const auto& [name, shape] : tensors_of(config))
    sum += std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  return sum;
}

}  // namespace duoka::model
