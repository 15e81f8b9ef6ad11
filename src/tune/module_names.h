// SPDX-License-Identifier: Apache-2.0
// How names of modules and parameters are taken apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "duoka/tune/selection.h"

namespace duoka::tune {

/// "model.layers.0.self_attn.q_proj" -> "q_proj".
std::string last_part(const std::string& module);
/// "lm_head.weight" -> "lm_head".
std::string module_of(const std::string& parameter);
/// The block a parameter or module is part of.
std::optional<int64_t> layer_of(const std::string& name);
/// Every module that owns a parameter, in model order.
std::vector<std::string> modules_of(const model::ModelConfig& config);

/// Fills trainable_parameters from the other fields.
void select_parameters(const model::ModelConfig& config, Selection& selection);

}  // namespace duoka::tune
