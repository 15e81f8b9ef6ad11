// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "duoka/data/tokenizer.h"

namespace duoka::data {

/// Turns ids into text one at a time without cutting a character: bytes of an unfinished one are held back.
/// What push() and finish() return, joined, is Tokenizer::decode() of all ids. One per text; not
/// thread-safe; the tokenizer has to outlive it.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = false);

  /// The text that `id` completes: whole characters, often "".
  std::string push(int32_t id);
  /// What is still held, an unfinished character as one U+FFFD; makes the decoder ready for a new text.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  std::vector<int32_t> recent_;  ///< The last few ids: a leading space depends on what stands before.
  std::string held_;             ///< At most three bytes, the beginning of a character.
};

}  // namespace duoka::data
