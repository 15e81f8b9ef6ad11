// SPDX-License-Identifier: Apache-2.0
// Rows on their way to a stream. These have no bound that a machine sets; bench/tokenizer has the tokenizer
// beside another.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "duoka/core/files.h"
#include "duoka/data/pack.h"
#include "duoka/data/tokenizer.h"
#include "duoka/io/gguf.h"
#include "measured.h"

namespace duoka::bench {
namespace {

constexpr const char* tokenizer_path = ".assets/SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr const char* text_path = ".assets/define-the-word/train.jsonl";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

Step encode_step() {
  const auto tokenizer =
      std::make_shared<const data::Tokenizer>(data::Tokenizer::from_gguf(io::GgufFile::open(tokenizer_path)));
  const auto texts = std::make_shared<const std::vector<std::string>>(lines_of(read_text_file(text_path)));
  return {.body = [=] {
    for (const std::string& text : *texts) static_cast<void>(tokenizer->encode(text));
  }};
}

constexpr int64_t num_lengths = 1'000'000;

Step packing_step() {
  std::mt19937_64 random(1);
  std::vector<data::RowLength> lengths(num_lengths);
  for (auto& length : lengths) {
    length.num_tokens = 30 + static_cast<int32_t>(random() % 571);
    length.num_trained = length.num_tokens;
  }
  return {.body = [lengths = std::move(lengths)] {
    const data::PackOptions options{.is_packing = true, .tokens_per_stream = 2048};
    static_cast<void>(data::plan_epoch(lengths, options, 0));
  }};
}

}  // namespace

void add_data() {
  add({.name = "tokenizer/encode", .make = encode_step, .bytes = file_bytes(text_path)});
  add({.name = "packing/a million rows", .make = packing_step, .rows = num_lengths});
}

}  // namespace duoka::bench
