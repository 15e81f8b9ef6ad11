// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace duoka::train {

/// "checkpoint-<step>".
std::string checkpoint_name(int64_t step);

/// Complete checkpoints (manifest, all files with their sizes) in `output_dir`, by rising step.
std::vector<std::pair<int64_t, std::filesystem::path>> list_checkpoints(
    const std::filesystem::path& output_dir);

/// Removes complete ones until `limit` are left (0: keeps all): those beyond `newest` first, the step just
/// saved, for they are of a course that the run has gone back from, then the oldest. The newest and the one
/// named `best` ("" for none) stay in any case. Each vanishes at once, by a rename, before its files are
/// removed.
void remove_old_checkpoints(const std::filesystem::path& output_dir, int64_t limit, int64_t newest,
                            const std::string& best);

}  // namespace duoka::train
