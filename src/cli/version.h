// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace duoka::cli {
inline constexpr const char* version = DUOKA_VERSION;
}  // namespace duoka::cli
