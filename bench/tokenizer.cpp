// SPDX-License-Identifier: Apache-2.0
// Seconds of encoding all of some texts, one after the other, on one core, after a first pass that is not
// counted.
//
//   bench_tokenizer SOURCE TEXTS OUT
//
// SOURCE: a tokenizer.json or a .gguf file. TEXTS: UTF-8, each text ended by a NUL byte. Prints the seconds;
// writes into the folder OUT tokenizer.json and ids.bin: for each text the number of its tokens, then their
// ids, 32 bits each.
#include "duoka/data/tokenizer.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "duoka/io/gguf.h"

namespace {

using duoka::data::Tokenizer;

Tokenizer load(const std::filesystem::path& source) {
  return source.extension() == ".gguf" ? Tokenizer::from_gguf(duoka::io::GgufFile::open(source))
                                       : Tokenizer::from_json_file(source);
}

std::vector<std::string> read_texts(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<std::string> texts;
  for (std::string text; std::getline(in, text, '\0');) texts.push_back(text);
  return texts;
}

void write_ids(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
               const std::filesystem::path& path) {
  std::ofstream out(path, std::ios::binary);
  for (const std::string& text : texts) {
    std::vector<int32_t> ids = tokenizer.encode(text, {.add_special_tokens = false}).ids;
    ids.insert(ids.begin(), static_cast<int32_t>(ids.size()));
    out.write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size() * 4));
  }
}

double seconds_of_pass(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& text : texts)
    static_cast<void>(tokenizer.encode(text, {.add_special_tokens = false}));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_tokenizer SOURCE TEXTS OUT\n");
    return 2;
  }
  const Tokenizer tokenizer = load(argv[1]);
  const std::vector<std::string> texts = read_texts(argv[2]);
  const std::filesystem::path out = argv[3];
  std::filesystem::create_directories(out);
  tokenizer.save(out);
  write_ids(tokenizer, texts, out / "ids.bin");  // also the pass that is not counted
  std::printf("%.6f\n", seconds_of_pass(tokenizer, texts));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
