// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "duoka/model/config.h"

namespace duoka::model {
class Decoder;
}

namespace duoka::tune {

struct LoraConfig;

enum class FinetuningType { full, lora };

/// What the user asked to train; names as in LLaMA-Factory's and peft's options.
struct SelectionOptions {
  FinetuningType finetuning_type = FinetuningType::lora;
  /// Which linear modules get an adapter. "all": every linear module of the blocks. Else a comma list in
  /// which "q_proj" or "self_attn.q_proj" means every module whose name ends so, at a dot; or, if it holds
  /// a character no name has (any of *+?()[]{}|\^$), one regular expression over the whole name.
  std::string lora_target = "all";
  /// Whole modules trained and saved beside the adapter: embed_tokens, lm_head, norm, or any module's name or
  /// ending. peft's modules_to_save.
  std::vector<std::string> additional_target = {};
  /// 0: every block. n > 0: only the last n blocks are trained (adapted); n < 0: only the first -n. With
  /// full, a value other than 0 also freezes embedding, final norm and head unless additional_target names
  /// them.
  int64_t freeze_trainable_layers = 0;
};

/// The answer: names of what trains.
struct Selection {
  FinetuningType finetuning_type = FinetuningType::lora;
  std::vector<std::string> adapted_modules;  ///< Linear modules that get an adapter, in model order.
  std::vector<std::string> saved_modules;    ///< Whole modules trained with an adapter, in model order.
  /// Base parameters that train, in model order: all of saved_modules', or what full training covers.
  std::vector<std::string> trainable_parameters;
  /// The comma list's entries, the short names for "all"; empty when target_regex says it.
  std::vector<std::string> target_modules;
  std::string target_regex;
  std::vector<int64_t> layers;  ///< Blocks that train, when not all; peft's layers_to_transform.
};

/// Works out what trains. Pure; no tensor is touched.
/// Throws ConfigError when a target matches no module (with the names there are), a regular expression is
/// not one, freeze_trainable_layers is more than there are layers, the head of a tied model is named (it is
/// the embedding), a module is to be adapted and saved whole, or nothing would train.
Selection select(const model::ModelConfig& config, const SelectionOptions& options);

/// Puts a LoraAdapter on every selected module that `decoder` holds and marks what trains: the adapters, and the
/// selected base parameters. With FinetuningType::full no adapter, only the marks.
/// Throws StateError when a module carries an adapter already, ConfigError as LoraAdapter does.
void apply_selection(model::Decoder& decoder, const Selection& selection, const LoraConfig& lora,
                     uint64_t seed);

/// peft's rule for one entry of a list: `module` is `target` or ends with "." + `target`.
bool matches_suffix(std::string_view module, std::string_view target);

}  // namespace duoka::tune
