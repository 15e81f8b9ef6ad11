// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "duoka/io/json.h"

namespace duoka::model {

struct ModelConfig;

/// What tells a family of decoders from the others: its names and its own keys of config.json. Everything
/// else (norm before attention and MLP, rotary positions, SwiGLU) they share.
struct Family {
  std::string_view name;          ///< config.json's model_type.
  std::string_view architecture;  ///< config.json's architectures[0].
  std::string_view gguf_name;     ///< GGUF's general.architecture.
  /// GGUF stores the rows of q and k for a rotary layout in which pairs are neighbours.
  bool gguf_pairs_rows = false;
  /// Reads the family's own keys; those all families have are in `config` already.
  void (*read)(const io::Json& json, const std::string& origin, ModelConfig& config) = nullptr;
};

/// All families, in order of their names.
std::span<const Family* const> families();
/// Throws FormatError that names what was found and those supported.
const Family& family_of(std::string_view model_type, const std::string& origin);
/// The same for GGUF's general.architecture.
const Family& family_of_gguf(std::string_view architecture, const std::string& origin);

// One file each in src/model/families/.
extern const Family llama_family;
extern const Family mistral_family;
extern const Family qwen2_family;
extern const Family qwen3_family;

/// sliding_window: transformers' default of 4096 when the key is absent, 0 (none) when it is null.
int64_t read_window(const io::Json& json, const std::string& origin);
/// Windows by layer_types, or by use_sliding_window, sliding_window and max_window_layers: as Qwen2 and
/// Qwen3 spell them.
void read_layer_windows(const io::Json& json, const std::string& origin, ModelConfig& config);

}  // namespace duoka::model
