// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <ATen/core/Tensor.h>

#include "duoka/core/log.h"

namespace duoka::tune {

struct MergeOptions {
  /// f32, f16 or bf16. Not given: each tensor keeps the base's dtype; of a quantised base (GGUF) f16.
  std::optional<at::ScalarType> dtype = {};
  int64_t max_shard_bytes = int64_t{5'000'000'000};
  Log log = Log();
};

/// Writes the base (a Hugging Face folder or a .gguf file) with the adapter of `adapter` (a peft folder)
/// added into its weights as a Hugging Face folder: base + scale * B A in f32, rounded once. Whole saved
/// modules replace the base's. `out`: an existing folder (an AtomicDirectory's, say); the tokenizer's files
/// are the caller's. One tensor is held at a time. Throws as the readers do.
void merge_adapter(const std::filesystem::path& base, const std::filesystem::path& adapter,
                   const std::filesystem::path& out, const MergeOptions& options = {});

}  // namespace duoka::tune
