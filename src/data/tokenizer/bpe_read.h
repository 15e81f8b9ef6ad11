// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/vocabulary.h"
#include "duoka/io/json.h"

namespace duoka::data {

/// Reads the "model" of a tokenizer.json and fills `vocabulary` with its tokens. Throws FormatError for other
/// kinds than BPE, merges of tokens that are not there, and parts that are not supported.
BpeModel read_bpe(const io::Json& model, bool is_byte_level, Vocabulary& vocabulary,
                  const std::string& origin);

}  // namespace duoka::data
