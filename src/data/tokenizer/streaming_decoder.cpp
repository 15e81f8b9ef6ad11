// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/streaming_decoder.h"

#include "data/tokenizer/unicode.h"

namespace duoka::data {
namespace {

/// Tokens that are decoded again with each new one. What a decoder does at the very start of a text (drop a
/// space) is then done to both sides of the difference and falls out of it.
constexpr size_t num_recent = 4;

}  // namespace

StreamingDecoder::StreamingDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

std::string StreamingDecoder::push(int32_t id) {
  const size_t before = tokenizer_.decode_bytes(recent_, skip_special_tokens_).size();
  recent_.push_back(id);
  const std::string bytes = tokenizer_.decode_bytes(recent_, skip_special_tokens_);
  if (bytes.size() > before) held_.append(bytes, before);
  if (recent_.size() > num_recent) recent_.erase(recent_.begin());
  const size_t tail = unfinished_tail(held_);
  std::string ready = lossy_utf8(std::string_view(held_).substr(0, held_.size() - tail));
  held_.erase(0, held_.size() - tail);
  return ready;
}

std::string StreamingDecoder::finish() {
  std::string rest = lossy_utf8(held_);
  held_.clear();
  recent_.clear();
  return rest;
}

}  // namespace duoka::data
