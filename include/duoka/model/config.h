// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "duoka/io/dtype.h"
#include "duoka/io/json.h"
#include "duoka/model/block.h"
#include "duoka/model/rope.h"

namespace duoka::io {
class GgufFile;
class ModelFolder;
}  // namespace duoka::io

namespace duoka::model {

/// What a decoder is, in numbers: all that is needed to know its tensors, whatever file it came from.
struct ModelConfig {
  std::string family;  ///< config.json's model_type; one of families().
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_positions = 2048;
  double norm_eps = 1e-6;
  Activation activation = Activation::silu;
  RopeConfig rope;
  bool tie_word_embeddings = false;
  bool has_qkv_bias = false;
  bool has_output_bias = false;  ///< On the attention's output projection.
  bool has_mlp_bias = false;
  bool has_qk_norm = false;
  std::vector<int64_t> windows;  ///< [num_layers]: a token sees this many, itself included; 0: all before.
  std::optional<int64_t> bos_id;
  std::optional<int64_t> pad_id;
  /// Ids that end a reply: of config.json and generation_config.json together, in that order, each once.
  std::vector<int64_t> eos_ids;
  double initializer_range = 0.02;
  /// What the weights are stored in (the file's word for it); f32 for quantised files.
  io::DType dtype = io::DType::f32;
  /// The config.json this came from, so that keys nobody here knows survive a round trip; else empty.
  std::string source_json;
  std::string source_generation_json;
  /// What was found and is not followed, a sentence each. To be shown by whoever loads.
  std::vector<std::string> warnings;

  BlockConfig block(int64_t layer) const;
};

/// From a parsed config.json. `origin`: its path for messages. Numbers are checked against each other before
/// anything is sized by them. Throws FormatError for an unsupported model_type (with those supported), a
/// missing or impossible value, an unknown kind of rope scaling, quantised weights.
ModelConfig read_config(const io::Json& json, const std::string& origin);
/// config.json and generation_config.json of a folder.
ModelConfig read_config(const io::ModelFolder& folder);
/// From GGUF metadata and the list of tensors (biases, norms of q and k and a head of its own show there).
ModelConfig read_config(const io::GgufFile& file);
/// Of a folder or a .gguf file. Throws SystemError when there is nothing at `path`.
ModelConfig read_config(const std::filesystem::path& path);
/// Whether `path` is a GGUF file rather than a folder: a regular file whose name ends in .gguf.
bool is_gguf(const std::filesystem::path& path);

/// The text of a config.json that transformers 4 and 5 read: the source's keys, with those set here that may
/// have changed (vocabulary, tying, dtype, ids); all of them when there is no source. Ends in a newline.
std::string config_text(const ModelConfig& config);
/// The text of a generation_config.json: the source's keys, else bos, eos and pad ids.
std::string generation_config_text(const ModelConfig& config);

struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
};
/// Every tensor of the model by its Hugging Face name, in the order of the layers; a tied head is not one.
std::vector<TensorShape> tensors_of(const ModelConfig& config);
/// The linear modules of the blocks, "model.layers.0.self_attn.q_proj" with the shape of the weight [O, I]:
/// what an adapter can be attached to, in model order.
std::vector<TensorShape> linear_modules(const ModelConfig& config);
int64_t num_parameters(const ModelConfig& config);
/// Throws ConfigError when `size` ranks of tensor parallelism cannot share the model, with the sizes that
/// can: the heads must divide, and each rank must get some of the vocabulary and of the MLP's width.
void check_tensor_parallel(const ModelConfig& config, int64_t size);

}  // namespace duoka::model
