// SPDX-License-Identifier: Apache-2.0
// What the readers of config.json and of GGUF metadata share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "duoka/model/config.h"

namespace duoka::model {

/// "bfloat16", as config.json has it.
std::string_view dtype_word(io::DType dtype);

/// Throws FormatError when heads and rotary numbers do not fit each other.
void check_heads(const ModelConfig& config, const std::string& origin);

/// Adds token ids to those known already; one outside the vocabulary becomes a warning.
void add_ids(ModelConfig& config, const std::string& origin, std::optional<int64_t> bos,
             const std::vector<int64_t>& eos, std::optional<int64_t> pad);

}  // namespace duoka::model
