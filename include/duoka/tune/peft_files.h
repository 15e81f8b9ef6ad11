// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/log.h"
#include "duoka/model/decoder.h"
#include "duoka/tune/lora.h"
#include "duoka/tune/selection.h"

namespace duoka::tune {

/// What an adapter_config.json says of a LoRA adapter, in peft's words.
struct PeftConfig {
  std::string base_model;  ///< base_model_name_or_path; may be empty.
  LoraConfig lora;
  std::map<std::string, int64_t> rank_pattern;  ///< Modules (peft's suffixes) of another rank.
  std::map<std::string, double> alpha_pattern;
  std::vector<std::string> target_modules;
  std::string target_regex;  ///< Instead of target_modules.
  std::vector<std::string> exclude_modules;
  std::string exclude_regex;  ///< Instead of exclude_modules.
  std::vector<std::string> modules_to_save;
  std::vector<int64_t> layers_to_transform;
  bool ensure_weight_tying = false;  ///< A saved embedding is the head too.
};

/// An adapter as its folder holds it. Tensors lie on the CPU, in the dtype stored.
struct PeftAdapter {
  struct Module {
    std::string name;      ///< "model.layers.0.self_attn.q_proj"
    LoraConfig lora;       ///< With this module's own rank and alpha.
    at::Tensor a, b;       ///< [r, I], [O, r]
    double scale() const;  ///< What B A is multiplied by.
  };
  PeftConfig config;
  std::vector<Module> modules;                      ///< In the order of the base's linear modules.
  std::map<std::string, at::Tensor> saved_weights;  ///< Whole tensors by the base's names.
  Selection selection;  ///< The same, as training would have chosen it: to train it on and write it again.
};

/// Reads adapter_config.json and adapter_model.safetensors. Throws FormatError with file and reason when one
/// is missing, it is another kind of adapter or a variant that changes the arithmetic (DoRA, trained biases,
/// patterns nobody here knows), a tensor has no place in a model of `config` or lacks its partner, shapes do
/// not fit (with both sizes: a vocabulary that was grown), or the file has fewer modules than the config
/// asks.
PeftAdapter read_peft_adapter(const std::filesystem::path& folder, const model::ModelConfig& config);

/// What to tell a user when `base` is by its name not the model that the adapter says it was made for: shapes
/// alone do not tell a model from its sibling. "" when the names agree or the adapter names none.
std::string other_base_warning(const PeftAdapter& adapter, const std::filesystem::path& base);

/// Attaches the adapter to `decoder`, and puts the saved weights in place of the base's.
/// `is_trainable`: to train it on; its dropout is keyed by `seed`.
void apply_adapter(model::Decoder& decoder, const PeftAdapter& adapter, bool is_trainable, uint64_t seed = 0);

/// Writes adapter_config.json and adapter_model.safetensors as peft 0.21 does: tensor names, all keys,
/// f32 or the dtype trained in, modules to save whole. The folder exists; files there are replaced
/// atomically. `base_model`: what base_model_name_or_path says. `value_of`: gives a parameter whole by name,
/// where `decoder` has less than that; asked once for each file's tensor. `own_lora`: for modules whose rank
/// or alpha is not `lora`'s; the modules in `decoder` know by themselves.
using ValueOf = std::function<at::Tensor(const std::string& name)>;
void write_peft_adapter(const std::filesystem::path& folder, model::Decoder& decoder,
                        const Selection& selection, const LoraConfig& lora, const std::string& base_model,
                        const ValueOf& value_of = {}, const std::map<std::string, LoraConfig>& own_lora = {});

}  // namespace duoka::tune
