// SPDX-License-Identifier: Apache-2.0
// Long texts: time stays near-linear and memory bounded (case A07).
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "data/tokenizer_test_files.h"
#include "support/cpu_time.h"

namespace duoka::data {
namespace {

using testing::byte_fallback;
using duoka::testing::cpu_seconds;
using testing::tiny_llama;

constexpr EncodeOptions plain{.add_special_tokens = false};

std::string repeated(std::string_view part, size_t count) {
  std::string all;
  all.reserve(part.size() * count);
  for (size_t i = 0; i < count; ++i) all.append(part);
  return all;
}

int64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void expect_cheap(const Tokenizer& tokenizer, const std::string& text, double max_seconds) {
  const int64_t before = peak_kib();
  const double start = cpu_seconds();
  const Encoding encoding = tokenizer.encode(text, plain);
  EXPECT_LT(cpu_seconds() - start, max_seconds);
  EXPECT_LT(peak_kib() - before, 900 * 1024);
  EXPECT_EQ(tokenizer.decode(encoding.ids), text);
}

TEST(TokenizerLong, CaseA07EightMegabytesOfWords) {
  expect_cheap(tiny_llama(), repeated("the cat sat ", 700'000), 30);
}

TEST(TokenizerLong, CaseA07WithoutAPreTokenizer) {
  expect_cheap(byte_fallback(), repeated("the cat sat ", 700'000), 30);
}

TEST(TokenizerLong, OneMegabyteWithoutASpace) {
  expect_cheap(tiny_llama(), repeated("thecatsatonthemat", 60'000), 20);
  expect_cheap(byte_fallback(), repeated("thecatsatonthemat", 60'000), 20);
}

TEST(TokenizerLong, OneMegabyteOfOneCharacter) {
  for (const char* character : {"a", " ", "\n", "🦙", "1"}) {
    expect_cheap(tiny_llama(), repeated(character, 1'000'000 / std::string(character).size()), 20);
  }
}

// Merged by the heap or by scanning, a piece has the same tokens: one letter more crosses the limit between.
TEST(TokenizerLong, BothWaysOfMergingAgree) {
  const Tokenizer tokenizer = tiny_llama();
  for (size_t length = 30; length < 70; ++length) {
    const std::string text = repeated("thecat", 20).substr(0, length);
    const std::vector<int32_t> ids = tokenizer.encode(text, plain).ids;
    const std::vector<int32_t> longer = tokenizer.encode(text + "thecatthecatthecatthecatthecat", plain).ids;
    // All but what the end decides.
    const size_t same = ids.size() - 4;
    EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(same), longer.begin()));
  }
}

}  // namespace
}  // namespace duoka::data
