// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/gguf.h"

#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/json.h"
#include "support/test_files.h"

namespace duoka::io {
namespace {

using duoka::testing::asset;
using duoka::testing::fixture;
using duoka::testing::message_of;
using duoka::testing::TemporaryFolder;
using duoka::testing::write_file;
using ::testing::HasSubstr;

const std::filesystem::path types_file = fixture("golden/gguf_types.gguf");

Json recorded() { return read_json_file(fixture("golden/gguf.json")); }

/// The bits of f32 numbers as the recording script writes them: little-endian bytes in hex.
std::vector<uint32_t> bits_of(const std::string& hex) {
  std::vector<uint32_t> bits;
  for (size_t at = 0; at < hex.size(); at += 8) {
    const auto as_written = static_cast<uint32_t>(std::stoul(hex.substr(at, 8), nullptr, 16));
    bits.push_back(__builtin_bswap32(as_written));
  }
  return bits;
}

std::vector<uint32_t> bits_of(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

std::vector<float> values_of(const GgufTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.numel()));
  dequantize(tensor, values);
  return values;
}

TEST(Gguf, ReadsEachTypeOfMetadata) {
  const GgufFile file = GgufFile::open(types_file);
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.require_string("general.architecture"), "test");
  EXPECT_EQ(file.keys().front(), "general.architecture");
  EXPECT_EQ(file.require_int("test.uint8"), 200);
  EXPECT_EQ(file.require_int("test.int8"), -100);
  EXPECT_EQ(file.require_int("test.uint16"), 60000);
  EXPECT_EQ(file.require_int("test.int16"), -30000);
  EXPECT_EQ(file.require_int("test.uint32"), 4000000000);
  EXPECT_EQ(file.require_int("test.int32"), -2000000000);
  EXPECT_EQ(file.require_int("test.int64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(file.require_number("test.float32"), 0.1f);
  EXPECT_EQ(file.require_number("test.float64"), 0.1);
  EXPECT_EQ(file.require_number("test.int8"), -100.0);
  EXPECT_TRUE(file.require_bool("test.bool"));
  EXPECT_EQ(file.require_string("test.string"), "grüße, 世界");
  EXPECT_EQ(file.strings("test.strings"), (std::vector<std::string_view>{"a", "", "世界"}));
  EXPECT_EQ(file.ints("test.ints"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(file.floats("test.floats"), (std::vector<float>{0.5f, -1.25f}));
}

TEST(Gguf, AbsentMetadataIsNothingOrAnErrorWithItsKey) {
  const GgufFile file = GgufFile::open(types_file);
  EXPECT_FALSE(file.has("absent"));
  EXPECT_EQ(file.optional_int("absent"), std::nullopt);
  EXPECT_EQ(file.optional_number("absent"), std::nullopt);
  EXPECT_EQ(file.optional_bool("absent"), std::nullopt);
  EXPECT_EQ(file.optional_string("absent"), std::nullopt);
  EXPECT_TRUE(file.strings("absent").empty());
  EXPECT_TRUE(file.ints("absent").empty());
  EXPECT_TRUE(file.floats("absent").empty());
  EXPECT_EQ(message_of<FormatError>([&] { file.require_int("llama.block_count"); }),
            types_file.string() + ": the metadata key llama.block_count is missing; wanted a whole number");
  EXPECT_THROW(file.require_string("absent"), FormatError);
}

TEST(Gguf, MetadataOfAnotherTypeIsRefusedWithTheTypeFound) {
  const GgufFile file = GgufFile::open(types_file);
  EXPECT_THAT(message_of<FormatError>([&] { file.optional_int("test.float32"); }),
              HasSubstr("test.float32 is f32; wanted a whole number"));
  EXPECT_THROW(file.require_int("test.uint64"), FormatError);  // 2^64 - 1 does not fit
  EXPECT_THROW(file.optional_number("test.string"), FormatError);
  EXPECT_THROW(file.optional_bool("test.uint8"), FormatError);
  EXPECT_THAT(message_of<FormatError>([&] { file.optional_string("test.strings"); }),
              HasSubstr("is an array of string; wanted a string"));
  EXPECT_THROW(file.strings("test.string"), FormatError);
  EXPECT_THROW(file.ints("test.floats"), FormatError);
  EXPECT_THROW(file.ints("test.int8"), FormatError);
  EXPECT_THROW(file.floats("test.ints"), FormatError);
}

TEST(Gguf, DequantisesEachTypeToTheBitsOfTheReference) {
  const GgufFile file = GgufFile::open(types_file);
  const Json record = recorded();
  ASSERT_EQ(record["types"].size(), 9u);
  for (const auto& [name, wanted] : record["types"].items()) {
    SCOPED_TRACE(name);
    const GgufTensor* tensor = file.find(name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(ggml_type_name(tensor->type), wanted["type"].get<std::string>());
    EXPECT_EQ(tensor->shape, wanted["shape"].get<std::vector<int64_t>>());
    EXPECT_EQ(bits_of(values_of(*tensor)), bits_of(wanted["values"].get<std::string>()));
  }
}

TEST(Gguf, RowsAreThePartsOfTheWhole) {
  const GgufFile file = GgufFile::open(types_file);
  for (const char* name : {"q5_1.weight", "f16.weight"}) {
    const GgufTensor& tensor = *file.find(name);
    const std::vector<float> all = values_of(tensor);
    std::vector<float> rows(128);
    dequantize_rows(tensor, 1, 2, rows);
    EXPECT_EQ(rows, std::vector<float>(all.begin() + 64, all.end()));
    dequantize_rows(tensor, 3, 0, {});
    EXPECT_THROW(dequantize_rows(tensor, 2, 2, rows), StateError);
    EXPECT_THROW(dequantize_rows(tensor, -1, 2, rows), StateError);
    EXPECT_THROW(dequantize_rows(tensor, 0, 1, rows), StateError);
  }
}

TEST(Gguf, AQuantisationWeDoNotReadIsListedAndRefusedByName) {
  const GgufFile file = GgufFile::open(types_file);
  const GgufTensor& tensor = *file.find("q6_k.weight");
  EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 256}));
  std::vector<float> out(512);
  const std::string message = message_of<FormatError>([&] { dequantize(tensor, out); });
  EXPECT_THAT(message, HasSubstr("q6_k.weight"));
  EXPECT_THAT(message, HasSubstr("Q6_K is not supported"));
  EXPECT_THAT(message, HasSubstr("Q4_1"));
}

// ---- damaged files

template <class Number>
std::string packed(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
std::string packed_string(const std::string& value) { return packed<uint64_t>(value.size()) + value; }

/// Start of a file of version 3.
std::string start(uint64_t num_tensors, uint64_t num_values) {
  return "GGUF" + packed<uint32_t>(3) + packed(num_tensors) + packed(num_values);
}

std::string tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                   uint64_t offset) {
  std::string bytes = packed_string(name) + packed(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) bytes += packed(dim);
  return bytes + packed(type) + packed(offset);
}

std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  write_file(folder / "x.gguf", bytes);
  std::string message = message_of<FormatError>([&] { GgufFile::open(folder / "x.gguf"); });
  EXPECT_THAT(message, HasSubstr("x.gguf: "));
  return message;
}

TEST(GgufDamaged, StartsAreRefusedByName) {
  EXPECT_THAT(refusal(""), HasSubstr("no GGUF file"));
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(refusal("GGUF" + packed<uint32_t>(1)), HasSubstr("version 1 is not supported"));
  EXPECT_THAT(refusal("GGUF" + packed<uint32_t>(0x03000000)), HasSubstr("big-endian"));
  EXPECT_THAT(refusal("GGUF" + packed<uint32_t>(3)), HasSubstr("cut short"));
}

TEST(GgufDamaged, CountsAndLengthsBeyondTheFileAreRefused) {
  EXPECT_THAT(refusal(start(uint64_t{1} << 60, 0)), HasSubstr("tensors, more than it has room for"));
  EXPECT_THAT(refusal(start(0, UINT64_MAX)), HasSubstr("metadata values, more than it has room for"));
  const std::string padding(64, '\0');
  EXPECT_THAT(refusal(start(0, 1) + packed(UINT64_MAX) + padding), HasSubstr("metadata key"));
  EXPECT_THAT(refusal(start(0, 1) + packed_string("k") + packed<uint32_t>(9) + packed<uint32_t>(8) +
                      packed(UINT64_MAX)),
              HasSubstr("k claims"));
  EXPECT_THAT(refusal(start(0, 1) + packed_string("k") + packed<uint32_t>(9) + packed<uint32_t>(12) +
                      packed(uint64_t{1} << 61)),
              HasSubstr("k claims"));
  EXPECT_THAT(refusal(start(0, 1) + packed_string("k") + packed<uint32_t>(77) + padding),
              HasSubstr("type 77"));
}

TEST(GgufDamaged, ArraysNestedWithoutEndAreRefused) {
  std::string bytes = start(0, 1) + packed_string("k") + packed<uint32_t>(9);
  for (int i = 0; i < 100'000; ++i) bytes += packed<uint32_t>(9) + packed<uint64_t>(1);
  EXPECT_THAT(refusal(bytes), HasSubstr("nested too deep"));
}

TEST(GgufDamaged, KeysAndTensorsGivenTwiceAreRefused) {
  const std::string value = packed_string("k") + packed<uint32_t>(4) + packed<uint32_t>(1);
  EXPECT_THAT(refusal(start(0, 2) + value + value), HasSubstr("k is given twice"));
  EXPECT_THAT(
      refusal(start(2, 0) + tensor("t", {1}, 0, 0) + tensor("t", {1}, 0, 32) + std::string(128, '\0')),
      HasSubstr("t is given twice"));
}

TEST(GgufDamaged, TensorsThatCannotBeAreRefused) {
  const std::string data(256, '\0');
  EXPECT_THAT(refusal(start(1, 0) + tensor("t", {1, 1, 1, 1, 1}, 0, 0) + data), HasSubstr("5 dims"));
  EXPECT_THAT(refusal(start(1, 0) + tensor("t", {uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0) + data),
              HasSubstr("too large to be true"));
  EXPECT_THAT(refusal(start(1, 0) + tensor("t", {uint64_t{1} << 62}, 28, 0) + data),
              HasSubstr("too large to be true"));
  EXPECT_THAT(refusal(start(1, 0) + tensor("t", {UINT64_MAX}, 0, 0) + data),
              HasSubstr("too large to be true"));
  EXPECT_THAT(refusal(start(1, 0) + tensor("t", {33}, 2, 0) + data), HasSubstr("no whole blocks of Q4_0"));
  EXPECT_THAT(refusal(start(1, 0) + tensor("t", {1}, 1234, 0) + data), HasSubstr("type 1234"));
  EXPECT_THAT(refusal(start(1, 0) + tensor("t", {1}, 0, 8) + data), HasSubstr("not aligned to 32"));
  EXPECT_THAT(refusal(start(1, 0) + tensor("t", {1000}, 0, 0) + data),
              HasSubstr("beyond the end of the file"));
  EXPECT_THAT(refusal(start(1, 0) + tensor("t", {1}, 0, UINT64_MAX - 31) + data),
              HasSubstr("beyond the end"));
}

TEST(GgufDamaged, APartOfSeveralAndABadAlignmentAreRefused) {
  EXPECT_THAT(refusal(start(0, 1) + packed_string("split.count") + packed<uint32_t>(2) + packed<uint16_t>(3)),
              HasSubstr("one of 3 parts"));
  EXPECT_THAT(
      refusal(start(0, 1) + packed_string("general.alignment") + packed<uint32_t>(4) + packed<uint32_t>(0)),
      HasSubstr("general.alignment is 0"));
}

TEST(GgufDamaged, EveryCutIsAnError) {
  const std::string whole = read_text_file(types_file);
  const TemporaryFolder folder;
  const auto path = folder / "cut.gguf";
  write_file(path, whole);
  for (size_t cut = 32; cut < whole.size(); cut += 11) {
    std::filesystem::resize_file(path, whole.size() - cut);
    ASSERT_THROW(GgufFile::open(path), FormatError) << cut;
  }
}

TEST(GgufDamaged, FlippedBytesAreRefusedOrHarmless) {
  const std::string whole = read_text_file(types_file);
  const TemporaryFolder folder;
  const auto path = folder / "flipped.gguf";
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = whole;
    for (int i = 0; i < 3; ++i) bytes[random() % 1200] = static_cast<char>(random());
    write_file(path, bytes);
    try {
      const GgufFile file = GgufFile::open(path);
      for (const GgufTensor& some : file.tensors()) values_of(some);
    } catch (const FormatError&) {
    }
  }
}

// ---- a real model

TEST(GgufModel, SmolLM2IsAsTheReferenceReadsIt) {
  const auto path = asset("SmolLM2-135M-Instruct.Q4_1.gguf");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path << "; scripts/demo fetches it";
  const Json model = recorded()["model"];
  const GgufFile file = GgufFile::open(path);
  ASSERT_EQ(file.tensors().size(), model["tensors"].size());
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const GgufTensor& tensor = file.tensors()[i];
    EXPECT_EQ(tensor.name, model["tensors"][i][0].get<std::string>());
    EXPECT_EQ(ggml_type_name(tensor.type), model["tensors"][i][1].get<std::string>());
    EXPECT_EQ(tensor.shape, model["tensors"][i][2].get<std::vector<int64_t>>());
  }
  for (const auto& [name, wanted] : model["values"].items()) {
    SCOPED_TRACE(name);
    const std::vector<float> values = values_of(*file.find(name));
    EXPECT_EQ(bits_of(std::span(values).first(4)), bits_of(wanted["first"].get<std::string>()));
    EXPECT_EQ(bits_of(std::span(values).last(4)), bits_of(wanted["last"].get<std::string>()));
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    EXPECT_NEAR(sum, wanted["sum"].get<double>(), 1e-6 * (1 + std::abs(sum)));
  }
  EXPECT_EQ(file.require_int("llama.block_count"), 30);
  EXPECT_EQ(file.strings("tokenizer.ggml.tokens").size(), 49152u);
}

}  // namespace
}  // namespace duoka::io
