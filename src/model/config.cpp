// SPDX-License-Identifier: Apache-2.0
// config.json -> ModelConfig.
#include "duoka/model/config.h"

#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/gguf.h"
#include "duoka/io/model_folder.h"
#include "duoka/model/families.h"
#include "model/config_detail.h"

namespace duoka::model {

namespace {
using io::Json;

// Larger than any real model, small enough that products of two fit into 63 bits.
constexpr int64_t max_size = int64_t{1} << 30;
constexpr int64_t max_layers = 10'000;

int64_t size_key(const Json& json, const char* key, const std::string& origin, int64_t limit = max_size) {
  const int64_t value = io::require_int(json, key, origin);
  if (value < 1 || value > limit)
    throw FormatError(text(origin, ": ", key, " = ", value, "; wanted a number from 1 to ", limit));
  return value;
}

void refuse_quantized(const Json& json, const std::string& origin) {
  const Json* quantization = io::optional_object(json, "quantization_config", origin);
  if (!quantization) return;
  const auto method = io::optional_string(*quantization, "quant_method", origin).value_or("unknown");
  throw FormatError(text(origin, ": weights quantised by \"", method,
                         "\" are not supported; use the original folder, or a GGUF file"));
}

void check_architecture(const Json& json, const Family& family, const std::string& origin) {
  const Json* architectures = io::optional_array(json, "architectures", origin);
  if (!architectures || architectures->empty() || !architectures->front().is_string()) return;
  const auto& name = architectures->front().get_ref<const std::string&>();
  if (!name.ends_with("ForCausalLM"))
    throw FormatError(text(origin, ": architecture ", name, " is not a causal language model; wanted ",
                           family.architecture));
}

// rope_parameters (transformers 5), or rope_scaling beside a rope_theta of its own (before).
RopeConfig read_rope(const Json& json, const std::string& origin, const ModelConfig& config) {
  RopeConfig rope;
  rope.head_dim = config.head_dim;
  rope.max_positions = config.max_positions;
  const Json* nested = io::optional_object(json, "rope_parameters", origin);
  if (!nested) nested = io::optional_object(json, "rope_scaling", origin);
  const Json empty = Json::object();
  const Json& inner = nested ? *nested : empty;
  if (inner.contains("full_attention") || inner.contains("sliding_attention"))
    throw FormatError(text(origin, ": rope_parameters that differ by layer type are not supported"));
  const auto number = [&](const char* key, double otherwise) {
    const auto value = io::optional_number(inner, key, origin);
    return value ? *value : io::optional_number(json, key, origin).value_or(otherwise);
  };
  const auto own = [&](const char* key) { return io::optional_number(inner, key, origin); };
  auto name = io::optional_string(inner, "rope_type", origin);
  if (!name) name = io::optional_string(inner, "type", origin);  // spelling before transformers 4.43
  rope.kind = within("reading " + origin, [&] { return rope_kind(name.value_or("default")); });
  rope.theta = number("rope_theta", 10000.0);
  rope.partial_rotary_factor = number("partial_rotary_factor", 1.0);
  auto original = io::optional_int(json, "original_max_position_embeddings", origin);
  if (!original) original = io::optional_int(inner, "original_max_position_embeddings", origin);
  rope.original_max_positions = original.value_or(0);
  using Kind = RopeConfig::Kind;
  if (rope.kind == Kind::yarn && !own("factor") && rope.original_max_positions > 0)
    rope.factor =
        static_cast<double>(config.max_positions) / static_cast<double>(rope.original_max_positions);
  else if (rope.kind != Kind::standard)
    rope.factor = io::require_number(inner, "factor", origin);
  if (rope.kind == Kind::llama3) {
    rope.low_freq_factor = io::require_number(inner, "low_freq_factor", origin);
    rope.high_freq_factor = io::require_number(inner, "high_freq_factor", origin);
  }
  rope.beta_fast = own("beta_fast").value_or(32.0);
  rope.beta_slow = own("beta_slow").value_or(1.0);
  rope.truncate = io::optional_bool(inner, "truncate", origin).value_or(true);
  rope.attention_factor = own("attention_factor");
  rope.mscale = own("mscale");
  rope.mscale_all_dim = own("mscale_all_dim");
  return rope;
}

// An id, a list of ids or null.
std::vector<int64_t> ids_of(const Json& json, const char* key, const std::string& origin) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return {};
  if (found->is_number_integer()) return {found->get<int64_t>()};
  std::vector<int64_t> ids;
  if (found->is_array())
    for (const Json& id : *found)
      if (id.is_number_integer()) ids.push_back(id.get<int64_t>());
  if (ids.empty() || ids.size() != found->size())
    throw FormatError(
        text(origin, ": ", key, " is ", found->dump(), "; wanted a token id or a list of them"));
  return ids;
}

// Absent and "auto" leave it open.
io::DType read_dtype(const Json& json, const std::string& origin) {
  auto name = io::optional_string(json, "dtype", origin);
  if (!name) name = io::optional_string(json, "torch_dtype", origin);
  if (name && name->starts_with("torch.")) name->erase(0, 6);
  if (!name || *name == "auto") return io::DType::f32;
  for (const auto dtype : {io::DType::f32, io::DType::bf16, io::DType::f16, io::DType::f64})
    if (*name == dtype_word(dtype)) return dtype;
  throw FormatError(text(origin, ": dtype \"", *name, "\"; wanted float32, bfloat16, float16 or float64"));
}

void note_ignored(const Json& json, const std::string& origin, ModelConfig& config) {
  const auto dropout = io::optional_number(json, "attention_dropout", origin).value_or(0);
  if (dropout > 0)
    config.warnings.push_back(text(origin, ": attention_dropout = ", dropout, " is not followed; 0 is used"));
}
}  // namespace

std::string_view dtype_word(io::DType dtype) {
  switch (dtype) {
    case io::DType::f64:
      return "float64";
    case io::DType::f16:
      return "float16";
    case io::DType::bf16:
      return "bfloat16";
    default:
      return "float32";
  }
}

void check_heads(const ModelConfig& config, const std::string& origin) {
  if (config.num_kv_heads < 1 || config.num_heads % config.num_kv_heads != 0)
    throw FormatError(text(origin, ": num_key_value_heads = ", config.num_kv_heads,
                           " does not divide num_attention_heads = ", config.num_heads));
  if (config.head_dim < 2 || config.head_dim > max_size / config.num_heads)
    throw FormatError(
        text(origin, ": head_dim = ", config.head_dim, "; wanted 2 or more, and within reason"));
  within("reading " + origin, [&] { return Rope(config.rope).attention_factor(); });
}

void add_ids(ModelConfig& config, const std::string& origin, std::optional<int64_t> bos,
             const std::vector<int64_t>& eos, std::optional<int64_t> pad) {
  const auto is_usable = [&](int64_t id, const char* what) {
    if (id >= 0 && id < config.vocab_size) return true;
    config.warnings.push_back(text(origin, ": ", what, " = ", id, " is left out: the vocabulary has ",
                                   config.vocab_size, " tokens"));
    return false;
  };
  if (!config.bos_id && bos && is_usable(*bos, "bos_token_id")) config.bos_id = bos;
  if (!config.pad_id && pad && is_usable(*pad, "pad_token_id")) config.pad_id = pad;
  for (const int64_t id : eos)
    if (std::ranges::find(config.eos_ids, id) == config.eos_ids.end() && is_usable(id, "eos_token_id"))
      config.eos_ids.push_back(id);
}

namespace {
void add_ids_of(const Json& json, const std::string& origin, ModelConfig& config) {
  // Old Qwen configs give a list for bos too; its first counts.
  const auto first = [&](const char* key) -> std::optional<int64_t> {
    const auto ids = ids_of(json, key, origin);
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  };
  add_ids(config, origin, first("bos_token_id"), ids_of(json, "eos_token_id", origin), first("pad_token_id"));
}
}  // namespace

ModelConfig read_config(const Json& json, const std::string& origin) {
  const Family& family = family_of(io::require_string(json, "model_type", origin), origin);
  check_architecture(json, family, origin);
  refuse_quantized(json, origin);
  ModelConfig config;
  config.family = family.name;
  config.vocab_size = size_key(json, "vocab_size", origin);
  config.hidden_size = size_key(json, "hidden_size", origin);
  config.intermediate_size = size_key(json, "intermediate_size", origin);
  config.num_layers = size_key(json, "num_hidden_layers", origin, max_layers);
  config.num_heads = size_key(json, "num_attention_heads", origin, config.hidden_size);
  config.num_kv_heads = io::optional_int(json, "num_key_value_heads", origin).value_or(config.num_heads);
  config.head_dim =
      io::optional_int(json, "head_dim", origin).value_or(config.hidden_size / config.num_heads);
  config.max_positions = size_key(json, "max_position_embeddings", origin);
  config.norm_eps = io::optional_number(json, "rms_norm_eps", origin).value_or(1e-6);
  config.activation = within("reading " + origin, [&] {
    return activation(io::optional_string(json, "hidden_act", origin).value_or("silu"));
  });
  config.tie_word_embeddings = io::optional_bool(json, "tie_word_embeddings", origin).value_or(false);
  config.initializer_range = io::optional_number(json, "initializer_range", origin).value_or(0.02);
  config.dtype = read_dtype(json, origin);
  config.windows.assign(static_cast<size_t>(config.num_layers), 0);
  family.read(json, origin, config);
  config.rope = read_rope(json, origin, config);
  check_heads(config, origin);
  add_ids_of(json, origin, config);
  note_ignored(json, origin, config);
  config.source_json = json.dump();
  return config;
}

ModelConfig read_config(const io::ModelFolder& folder) {
  ModelConfig config = read_config(folder.config(), (folder.path() / "config.json").string());
  if (const Json* generation = folder.generation_config()) {
    add_ids_of(*generation, (folder.path() / "generation_config.json").string(), config);
    config.source_generation_json = generation->dump();
  }
  return config;
}

bool is_gguf(const std::filesystem::path& path) {
  return path.extension() == ".gguf" && !std::filesystem::is_directory(path);
}

ModelConfig read_config(const std::filesystem::path& path) {
  if (is_gguf(path)) return read_config(io::GgufFile::open(path));
  return read_config(io::ModelFolder::open(path));
}

}  // namespace duoka::model
