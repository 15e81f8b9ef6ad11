// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace duoka::train {

/// Opens `path` for appending, made if missing. Throws SystemError with path and reason.
int open_for_append(const std::filesystem::path& path);

/// open_for_append of a file of JSON lines that a run goes on with: of what is there, lines whose number
/// `step_key` is at most `step` are kept; with step 0 none.
int open_lines_up_to(const std::filesystem::path& path, const char* step_key, int64_t step);

/// Writes all of `bytes` in one piece, handed to the system at once so that others can read it. Throws
/// SystemError.
void append(int descriptor, std::string_view bytes, const std::filesystem::path& path);

}  // namespace duoka::train
