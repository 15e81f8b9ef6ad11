// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "support/test_files.h"

namespace duoka::data {

using duoka::testing::fixture;
using duoka::testing::TemporaryFolder;

/// Writes a file into `folder` and gives its path.
inline std::string write_into(const TemporaryFolder& folder, const std::string& name,
                              const std::string& content) {
  duoka::testing::write_file(folder / name, content);
  return (folder / name).string();
}

}  // namespace duoka::data
