// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "duoka/io/json.h"

namespace duoka::data {

/// Tokens that the post-processor puts around a text.
struct Surround {
  std::vector<int32_t> before;
  std::vector<int32_t> behind;
};

/// Reads the "post_processor" of a tokenizer.json (its form for a single text). A ByteLevel one only changes
/// offsets and adds nothing. Throws FormatError for an unknown type or ids outside `vocab_size`.
Surround read_post_processor(const io::Json* json, int64_t vocab_size, const std::string& origin);

}  // namespace duoka::data
