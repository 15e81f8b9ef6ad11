// SPDX-License-Identifier: Apache-2.0
// adapter_config.json, in and out.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "duoka/tune/peft_files.h"

namespace duoka::tune {

/// Throws FormatError for another kind of adapter or a variant whose arithmetic is not LoRA's.
PeftConfig read_peft_config(const std::filesystem::path& file);
/// The text of the file, with every key peft 0.21 writes.
std::string peft_config_text(const PeftConfig& config);

/// Whether a key of rank_pattern or alpha_pattern means `module`: peft takes it as a regular expression for
/// the end of the name, from a dot on.
bool matches_pattern(const std::string& module, const std::string& pattern);
/// Rank, alpha and the rest for one module.
LoraConfig lora_of(const PeftConfig& config, const std::string& module);
/// The linear modules of a model that the config's targets mean, in model order.
std::vector<std::string> targeted_modules(const PeftConfig& config, const model::ModelConfig& model);

}  // namespace duoka::tune
