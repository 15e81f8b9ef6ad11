// SPDX-License-Identifier: Apache-2.0
// How GGUF files name pre-tokenizers, and the components of the published tokenizer.json files they mean.
#include <initializer_list>
#include <string_view>

#include <nlohmann/json.hpp>

#include "data/tokenizer/source.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

io::Json byte_level(bool uses_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", uses_regex}};
}

io::Json split(std::string_view pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", std::string(pattern)}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

io::Json digits() { return {{"type", "Digits"}, {"individual_digits", true}}; }

io::Json sequence(std::initializer_list<io::Json> parts) {
  io::Json list = io::Json::array();
  for (const io::Json& part : parts) list.push_back(part);
  return {{"type", "Sequence"}, {"pretokenizers", std::move(list)}};
}

struct Entry {
  std::string_view name;
  GgufPre (*make)();
};

GgufPre gpt2() { return {nullptr, byte_level(true)}; }
GgufPre smollm() { return {nullptr, sequence({digits(), byte_level(true)})}; }
GgufPre llama3() { return {nullptr, sequence({split(llama3_pattern), byte_level(false)}), true, true}; }
GgufPre qwen2() { return {{{"type", "NFC"}}, sequence({split(qwen2_pattern), byte_level(false)})}; }

// llama.cpp's fallback for files that name none: punctuation apart, GPT-2's words, digits in threes.
GgufPre fallback() {
  return {nullptr,
          sequence({split(R"([\p{P}\$\+<=>\^~\|]+)"),
                    split(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"),
                    split(R"(\p{N}+)"), split("[0-9][0-9][0-9]"), byte_level(false)})};
}

constexpr Entry entries[] = {
    {"default", &fallback}, {"deepseek-r1-qwen", &qwen2}, {"falcon3", &llama3}, {"gpt-2", &gpt2},
    {"llama-bpe", &llama3}, {"llama-v3", &llama3},        {"llama3", &llama3},  {"qwen2", &qwen2},
    {"smollm", &smollm},    {"starcoder", &smollm},
};

}  // namespace

GgufPre gguf_pre(std::string_view pre, const std::string& origin) {
  std::vector<std::string> known;
  for (const Entry& entry : entries) {
    if (entry.name == pre) return entry.make();
    known.emplace_back(entry.name);
  }
  throw FormatError(text(origin, ": tokenizer.ggml.pre \"", pre, "\" is not known; known are ", join(known),
                         ". Use the model's Hugging Face folder with its tokenizer.json instead"));
}

}  // namespace duoka::data
