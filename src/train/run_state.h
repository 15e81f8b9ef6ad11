// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "duoka/train/checkpoint.h"

namespace duoka::train {

/// run_state.json and trainer_state.json of `folder`, from and to RunState.
void write_run_state(const std::filesystem::path& folder, const RunState& state);
/// Throws FormatError naming file and key.
RunState read_run_state(const std::filesystem::path& folder);

}  // namespace duoka::train
