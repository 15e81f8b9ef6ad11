// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
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

// By the names of the file, which sort as peft's do.
using NamedParameters = std::map<std::string, const Parameter*>;

NamedParameters parameters_to_write(model::Decoder& decoder, const Selection& selection) {
  NamedParameters parameters;
  for (const auto& module : selection.adapted_modules) {
    model::Adapter* adapter = decoder.linear(module).adapter();
    if (!adapter) throw StateError(module + " carries no adapter to write");
    for (Parameter* parameter : adapter->parameters()) parameters.emplace(parameter->name, parameter);
  }
  for (const auto& module : selection.saved_modules)
    for (const char* part : {".weight", ".bias"})
      if (Parameter* parameter = decoder.find(module + part))
        parameters.emplace("base_model.model." + parameter->name, parameter);
  // With ensure_weight_tying peft expects the one matrix under both names.
  if (decoder.config().tie_word_embeddings && trains_embedding(selection))
    parameters.emplace("base_model.model.lm_head.weight", &decoder.embedding().weight());
  return parameters;
}

void write_tensors(const std::filesystem::path& file, const NamedParameters& parameters, const ValueOf& value_of) {
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, parameter] : parameters)
    specs.push_back({name, model::file_dtype(parameter->value.scalar_type()), parameter->global_shape});
  io::SafetensorsWriter writer(file, specs);
  for (const auto& spec : writer.tensors()) {
    const Parameter& parameter = *parameters.at(spec.name);
    const at::Tensor value =
        (value_of ? value_of(parameter.name) : parameter.value).to(at::kCPU).contiguous();
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
void add_patterns(model::Decoder& decoder, const Selection& selection, PeftConfig& config) {
  for (const auto& module : selection.adapted_modules) {
    const auto* adapter = dynamic_cast<const LoraAdapter*>(decoder.linear(module).adapter());
    if (!adapter) throw StateError(module + " carries no LoRA adapter");
    const auto rank = static_cast<double>(adapter->rank());
    const double alpha = adapter->scale() * (config.lora.use_rslora ? std::sqrt(rank) : rank);
    if (adapter->rank() != config.lora.rank) config.rank_pattern[module] = adapter->rank();
    if (std::abs(alpha - config.lora.alpha) > 1e-9 * std::abs(alpha)) config.alpha_pattern[module] = alpha;
  }
}
}  // namespace

void write_peft_adapter(const std::filesystem::path& folder, model::Decoder& decoder,
                        const Selection& selection, const LoraConfig& lora, const std::string& base_model,
                        const ValueOf& value_of) {
  if (selection.finetuning_type != FinetuningType::lora)
    throw StateError("full training has no adapter to write; export the model");
  PeftConfig config;
  config.base_model = base_model;
  config.lora = lora;
  // Names rather than a regular expression: peft's would also meet modules that are not linear (mlp.act_fn).
  config.target_modules =
      selection.target_regex.empty() ? selection.target_modules : selection.adapted_modules;
  config.layers_to_transform = selection.layers;
  add_patterns(decoder, selection, config);
  config.ensure_weight_tying = decoder.config().tie_word_embeddings && trains_embedding(selection);
  for (const auto& module : selection.saved_modules) config.modules_to_save.push_back(peft_name(module));
  write_tensors(folder / "adapter_model.safetensors", parameters_to_write(decoder, selection), value_of);
  write_file_atomically(folder / "adapter_config.json", peft_config_text(config));
}

}  // namespace duoka::tune
