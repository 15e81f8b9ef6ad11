// SPDX-License-Identifier: Apache-2.0
// GGUF metadata -> ModelConfig. Keys: github.com/ggml-org/ggml, docs/gguf.md.
#include <algorithm>
#include <cmath>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/gguf.h"
#include "duoka/model/config.h"
#include "duoka/model/families.h"
#include "model/config_detail.h"

namespace duoka::model {

namespace {
using io::GgufFile;

int64_t size_key(const GgufFile& file, const std::string& key, int64_t limit = int64_t{1} << 30) {
  const int64_t value = file.require_int(key);
  if (value < 1 || value > limit)
    throw FormatError(
        text(file.path().string(), ": ", key, " = ", value, "; wanted a number from 1 to ", limit));
  return value;
}

void read_scaling(const GgufFile& file, const std::string& arch, RopeConfig& rope) {
  const auto name = file.optional_string(arch + ".rope.scaling.type").value_or("none");
  if (name == "none") return;
  rope.kind = within("reading " + file.path().string(), [&] { return rope_kind(std::string(name)); });
  rope.factor = file.require_number(arch + ".rope.scaling.factor");
  rope.original_max_positions = file.optional_int(arch + ".rope.scaling.original_context_length").value_or(0);
  // llama.cpp multiplies the paper's factor by this one.
  if (const auto extra = file.optional_number(arch + ".rope.scaling.attn_factor"))
    rope.attention_factor = *extra * (0.1 * std::log(rope.factor) + 1);
}

// Llama 3's scaling is not metadata but a tensor of divisors, one a frequency. Its formula has one unknown
// that varies between releases, the factor, which is the largest divisor; the rest is checked against the
// tensor.
void read_divisors(const GgufFile& file, const io::GgufTensor& tensor, RopeConfig& rope) {
  const auto refuse = [&](const char* why) {
    throw FormatError(text(file.path().string(), ": rope_freqs.weight ", why,
                           "; use the Hugging Face folder of this model"));
  };
  if (tensor.numel() != rope.head_dim / 2) refuse("does not have one number for each frequency");
  std::vector<float> divisors(static_cast<size_t>(tensor.numel()));
  io::dequantize(tensor, divisors);
  RopeConfig scaled = rope;
  scaled.kind = RopeConfig::Kind::llama3;
  scaled.factor = *std::ranges::max_element(divisors);
  scaled.low_freq_factor = 1;
  scaled.high_freq_factor = 4;
  scaled.original_max_positions = 8192;
  if (!(scaled.factor >= 1)) refuse("holds no usable numbers");
  const auto plain = Rope(rope).inverse_frequencies(1);
  const auto wanted = Rope(scaled).inverse_frequencies(1);
  for (size_t i = 0; i < divisors.size(); ++i)
    if (!(std::abs(plain[i] / divisors[i] / wanted[i] - 1) < 1e-3)) refuse("is not Llama 3's scaling");
  rope = scaled;
}

RopeConfig read_rope(const GgufFile& file, const std::string& arch, const ModelConfig& config) {
  RopeConfig rope;
  rope.head_dim = config.head_dim;
  rope.max_positions = config.max_positions;
  rope.theta = file.optional_number(arch + ".rope.freq_base").value_or(10000.0);
  const int64_t rotary = file.optional_int(arch + ".rope.dimension_count").value_or(config.head_dim);
  rope.partial_rotary_factor = static_cast<double>(rotary) / static_cast<double>(config.head_dim);
  read_scaling(file, arch, rope);
  if (const io::GgufTensor* divisors = file.find("rope_freqs.weight")) read_divisors(file, *divisors, rope);
  return rope;
}

io::DType stored_dtype(io::GgmlType type) {
  switch (type) {
    case io::GgmlType::f16:
      return io::DType::f16;
    case io::GgmlType::bf16:
      return io::DType::bf16;
    default:
      return io::DType::f32;
  }
}

// What a config.json would say of biases, norms and the head shows in the list of tensors.
void read_tensor_list(const GgufFile& file, ModelConfig& config) {
  const auto has = [&](const char* name) { return file.find(name) != nullptr; };
  const io::GgufTensor* embedding = file.find("token_embd.weight");
  if (!embedding || embedding->shape.size() != 2)
    throw FormatError(text(file.path().string(), ": no two-dimensional tensor token_embd.weight"));
  config.vocab_size = embedding->shape[0];
  config.dtype = stored_dtype(embedding->type);
  config.tie_word_embeddings = !has("output.weight");
  config.has_qkv_bias = has("blk.0.attn_q.bias");
  config.has_output_bias = has("blk.0.attn_output.bias");
  config.has_mlp_bias = has("blk.0.ffn_up.bias");
  config.has_qk_norm = has("blk.0.attn_q_norm.weight");
}
}  // namespace

ModelConfig read_config(const GgufFile& file) {
  const std::string origin = file.path().string();
  const std::string arch(file.require_string("general.architecture"));
  ModelConfig config;
  config.family = family_of_gguf(arch, origin).name;
  if (file.optional_int(arch + ".expert_count").value_or(0) > 0)
    throw FormatError(text(origin, ": a mixture of experts (", arch, ".expert_count) is not supported"));
  read_tensor_list(file, config);
  config.hidden_size = size_key(file, arch + ".embedding_length");
  config.intermediate_size = size_key(file, arch + ".feed_forward_length");
  config.num_layers = size_key(file, arch + ".block_count", 10'000);
  config.num_heads = size_key(file, arch + ".attention.head_count", config.hidden_size);
  config.num_kv_heads = file.optional_int(arch + ".attention.head_count_kv").value_or(config.num_heads);
  config.head_dim =
      file.optional_int(arch + ".attention.key_length").value_or(config.hidden_size / config.num_heads);
  config.max_positions = size_key(file, arch + ".context_length");
  config.norm_eps = file.require_number(arch + ".attention.layer_norm_rms_epsilon");
  config.windows.assign(
      static_cast<size_t>(config.num_layers),
      std::max<int64_t>(0, file.optional_int(arch + ".attention.sliding_window").value_or(0)));
  config.rope = read_rope(file, arch, config);
  check_heads(config, origin);
  std::vector<int64_t> eos;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
    if (const auto id = file.optional_int(key)) eos.push_back(*id);
  add_ids(config, origin, file.optional_int("tokenizer.ggml.bos_token_id"), eos,
          file.optional_int("tokenizer.ggml.padding_token_id"));
  return config;
}

}  // namespace duoka::model
