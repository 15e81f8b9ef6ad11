// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/log.h"
#include "duoka/model/config.h"

namespace duoka::model {

class Decoder;

struct ExportOptions {
  std::optional<at::ScalarType> dtype = {};  ///< f32, f16 or bf16; not given: as the tensors are.
  int64_t max_shard_bytes = int64_t{5'000'000'000};
  Log log = Log();  ///< Shows progress when writing takes more than a second.
};

/// A tensor of the model to be written: its dtype must be known before the first one is asked for.
struct ExportSource {
  std::function<at::ScalarType(const std::string& name)> dtype;
  std::function<at::Tensor(const std::string& name)> tensor;  ///< Asked once for each, one held at a time.
};

/// Writes a Hugging Face folder of `config` into an existing `folder` (an AtomicDirectory's, say):
/// config.json, generation_config.json, model.safetensors or its shards with their index. The source is asked
/// for the tensors of tensors_of(config). config.json's dtype is the dtype most bytes are in. The tokenizer's
/// files are the caller's. Throws StateError when a tensor has another shape than the config says,
/// SystemError when writing fails.
void export_folder(const std::filesystem::path& folder, ModelConfig config, const ExportSource& source,
                   const ExportOptions& options = {});

/// The same for the weights of a model in memory, as they are now. Adapters are not part of it: merge
/// them first (duoka/tune/merge.h).
void export_folder(const std::filesystem::path& folder, Decoder& decoder, const ExportOptions& options = {});

}  // namespace duoka::model
