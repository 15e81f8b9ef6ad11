// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <c10/core/ScalarType.h>

#include "duoka/core/options.h"

namespace duoka::cli {

/// Options of `duoka merge` and `duoka export`; keys as in LLaMA-Factory's export.
struct ExportArguments {
  std::string model_name_or_path;
  std::string adapter_name_or_path;
  std::string export_dir;
  std::string export_dtype = "auto";
  std::string max_shard_size = "5GB";
  bool overwrite_export_dir = false;
};

/// With `needs_adapter`, adapter_name_or_path is required (merge), else it is not known (export).
const OptionTable<ExportArguments>& export_options(bool needs_adapter);

/// "auto" is no dtype: as the files have it.
std::optional<at::ScalarType> dtype_of(const ExportArguments& arguments);

}  // namespace duoka::cli
