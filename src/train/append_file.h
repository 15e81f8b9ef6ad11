// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace duoka::train {

/// Opens `path` for appending, made if missing. Throws SystemError with path and reason.
int open_for_append(const std::filesystem::path& path);

/// Writes all of `bytes` in one piece, handed to the system at once so that others can read it. Throws
/// SystemError.
void append(int descriptor, std::string_view bytes, const std::filesystem::path& path);

}  // namespace duoka::train
