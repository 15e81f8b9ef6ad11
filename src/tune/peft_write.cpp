// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/io/safetensors.h"
#include "duoka/model/weights.h"
#include "duoka/tune/peft_files.h"
#include "tune/module_names.h"
#include "tune/peft_config.h"

namespace duoka::tune {

namespace {
bool trains_embedding(const Selection& selection) {
  return std::ranges::find(selection.saved_modules, "model.embed_tokens") != selection.saved_modules.end();
}

struct Written {
  std::string parameter;  ///< Its name in the decoder.
  std::vector<int64_t> shape;
};
// By the names of the file, which sort as peft's do.
using NamedTensors = std::map<std::string, Written>;

/// The rank and alpha of each adapted module: what the adapter here has, else what is said of it.
using LoraOfModules = std::map<std::string, LoraConfig>;

LoraOfModules lora_of_modules(model::Decoder& decoder, const Selection& selection, const LoraConfig& lora,
                              const LoraOfModules& own) {
  LoraOfModules all;
  for (const auto& module : selection.adapted_modules) {
    LoraConfig& found = all[module] = own.contains(module) ? own.at(module) : lora;
    model::Linear* linear = decoder.find_linear(module);
    if (linear == nullptr) continue;
    const auto* adapter = dynamic_cast<const LoraAdapter*>(linear->adapter());
    if (adapter == nullptr) throw StateError(module + " carries no LoRA adapter to write");
    const auto rank = static_cast<double>(adapter->rank());
    found.rank = adapter->rank();
    found.alpha = adapter->scale() * (lora.use_rslora ? std::sqrt(rank) : rank);
  }
  return all;
}

// From names and numbers rather than from modules: some may be on other ranks.
NamedTensors tensors_to_write(const model::ModelConfig& config, const Selection& selection,
                              const LoraOfModules& lora) {
  NamedTensors tensors;
  for (const auto& [module, shape] : model::linear_modules(config)) {
    const auto found = lora.find(module);
    if (found == lora.end()) continue;
    const std::string name = "base_model.model." + module;
    const int64_t rank = found->second.rank;
    tensors[name + ".lora_A.weight"] = {name + ".lora_A.weight", {rank, shape[1]}};
    tensors[name + ".lora_B.weight"] = {name + ".lora_B.weight", {shape[0], rank}};
  }
  for (const auto& [name, shape] : model::tensors_of(config)) {
    if (std::ranges::find(selection.saved_modules, module_of(name)) == selection.saved_modules.end())
      continue;
    tensors["base_model.model." + name] = {name, shape};
    // With ensure_weight_tying peft expects the one matrix under both names.
    if (config.tie_word_embeddings && name == "model.embed_tokens.weight")
      tensors["base_model.model.lm_head.weight"] = {name, shape};
  }
  return tensors;
}

ValueOf values_of(model::Decoder& decoder) {
  return [&decoder](const std::string& name) {
    for (const Parameter* parameter : decoder.parameters())
      if (parameter->name == name) return parameter->value;
    throw StateError("no parameter " + name + " to write");
  };
}

void write_tensors(const std::filesystem::path& file, const NamedTensors& tensors, at::ScalarType dtype,
                   const ValueOf& value_of) {
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, written] : tensors)
    specs.push_back({name, model::file_dtype(dtype), written.shape});
  io::SafetensorsWriter writer(file, specs);
  for (const auto& spec : writer.tensors()) {
    const std::string& name = tensors.at(spec.name).parameter;
    const at::Tensor value = value_of(name).to(at::kCPU).contiguous();
    if (value.scalar_type() != dtype || value.sizes() != at::IntArrayRef(spec.shape))
      throw StateError(text(name, " to write is ", value.scalar_type(), " ", value.sizes(), "; wanted ",
                            dtype, " ", at::IntArrayRef(spec.shape)));
    writer.write(spec.name, {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()});
  }
  writer.commit();
}

// peft compares with the end of every module's name, so that "norm" would mean most norms there are.
std::string peft_name(const std::string& module) {
  const std::string name = last_part(module);
  return name == "embed_tokens" || name == "lm_head" ? name : module;
}

// Modules whose rank or alpha is not the common one: an adapter that came in with patterns and was trained
// on.
void add_patterns(const LoraOfModules& modules, PeftConfig& config) {
  for (const auto& [module, lora] : modules) {
    if (lora.rank != config.lora.rank) config.rank_pattern[module] = lora.rank;
    if (std::abs(lora.alpha - config.lora.alpha) > 1e-9 * std::abs(lora.alpha))
      config.alpha_pattern[module] = lora.alpha;
  }
}
}  // namespace

void write_peft_adapter(const std::filesystem::path& folder, model::Decoder& decoder,
                        const Selection& selection, const LoraConfig& lora, const std::string& base_model,
                        const ValueOf& value_of, const std::map<std::string, LoraConfig>& own_lora) {
  if (selection.finetuning_type != FinetuningType::lora)
    throw StateError("full training has no adapter to write; export the model");
  PeftConfig config;
  config.base_model = base_model;
  config.lora = lora;
  // Names rather than a regular expression: peft's would also meet modules that are not linear (mlp.act_fn).
  config.target_modules =
      selection.target_regex.empty() ? selection.target_modules : selection.adapted_modules;
  config.layers_to_transform = selection.layers;
  const LoraOfModules modules = lora_of_modules(decoder, selection, lora, own_lora);
  add_patterns(modules, config);
  config.ensure_weight_tying = decoder.config().tie_word_embeddings && trains_embedding(selection);
  for (const auto& module : selection.saved_modules) config.modules_to_save.push_back(peft_name(module));
  write_tensors(folder / "adapter_model.safetensors", tensors_to_write(decoder.config(), selection, modules),
                decoder.dtype(), value_of ? value_of : values_of(decoder));
  write_file_atomically(folder / "adapter_config.json", peft_config_text(config));
}

}  // namespace duoka::tune
