// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

// Names of the files that hold a model's weights in a Hugging Face folder, for those who read and write them.

namespace duoka::io {

inline constexpr const char* single_name = "model.safetensors";
inline constexpr const char* index_name = "model.safetensors.index.json";

/// "model-00001-of-00003.safetensors"; `shard` counts from 0.
inline std::string shard_name(size_t shard, size_t num_shards) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard + 1, num_shards);
  return name;
}

/// Whether a file of that name is a shard, whatever its number.
inline bool is_shard(std::string_view name) {
  return name.starts_with("model-") && name.ends_with(".safetensors");
}

}  // namespace duoka::io
