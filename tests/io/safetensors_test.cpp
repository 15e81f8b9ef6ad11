// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/safetensors.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/json.h"
#include "support/cpu_time.h"
#include "support/test_files.h"

namespace duoka::io {
namespace {

namespace fs = std::filesystem;
using duoka::testing::cpu_seconds;
using duoka::testing::fixture;
using duoka::testing::message_of;
using duoka::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const fs::path hostile = "cases/F06_safetensors";

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.numel()));
  convert_to_float(tensor.bytes, tensor.dtype, values);
  return values;
}

/// Lists within lists of numbers, flat.
void flatten(const Json& json, std::vector<float>& out) {
  if (json.is_number()) return out.push_back(json.get<float>());
  for (const Json& item : json) flatten(item, out);
}

int64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  convert_from_float(values, DType::f32, bytes);
  return bytes;
}

/// A file with `header` in front of `num_data_bytes` zeros.
fs::path file_with(const TemporaryFolder& folder, const std::string& header, size_t num_data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  write_file_atomically(folder / "x.safetensors", bytes + header + std::string(num_data_bytes, '\0'));
  return folder / "x.safetensors";
}

// Case F06: each file loads or is refused as the reference library does, quickly and in little memory.
TEST(SafetensorsFile, F06LoadsTheGoodAndRefusesTheHostile) {
  const Json expected = read_json_file(fixture(hostile / "expected.json"));
  int num_refused = 0;
  for (const auto& [name, wanted] : expected["files"].items()) {
    SCOPED_TRACE(name);
    const fs::path path = fixture(hostile / (name + ".safetensors"));
    const int64_t before = peak_memory();
    const double start = cpu_seconds();
    if (wanted["required"] == "loads") {
      const SafetensorsFile file = SafetensorsFile::open(path);
      EXPECT_EQ(file.tensors().size(), wanted["tensors"].size());
      for (const auto& [tensor, numbers] : wanted["tensors"].items()) {
        ASSERT_NE(file.find(tensor), nullptr);
        std::vector<float> flat;
        flatten(numbers, flat);
        EXPECT_EQ(values_of(*file.find(tensor)), flat);
      }
    } else {
      ++num_refused;
      EXPECT_THAT(message_of<FormatError>([&] { SafetensorsFile::open(path); }),
                  AllOf(HasSubstr(path.string()), Not(HasSubstr("\n"))));
    }
    EXPECT_LT(cpu_seconds() - start, 2);
    EXPECT_LT(peak_memory() - before, int64_t{200} << 20);
  }
  EXPECT_EQ(num_refused, 20);
}

TEST(SafetensorsFile, SaysWhatIsWrongAndWhatToDo) {
  const auto refusal = [](const char* name) {
    return message_of<FormatError>([&] { SafetensorsFile::open(fixture(hostile / name)); });
  };
  EXPECT_THAT(refusal("04_data_cut.safetensors"), HasSubstr("cut short"));
  EXPECT_THAT(refusal("06_overlap.safetensors"), HasSubstr("overlaps"));
  EXPECT_THAT(refusal("08_unknown_dtype.safetensors"), HasSubstr("dtype"));
  EXPECT_THAT(refusal("12_shape_product_overflow.safetensors"), HasSubstr("too large to be true"));
  EXPECT_THAT(refusal("16_zip_renamed.safetensors"), AllOf(HasSubstr("torch.save"), HasSubstr("save_file")));
  EXPECT_THAT(refusal("18_duplicate_name.safetensors"), HasSubstr("given twice"));
  EXPECT_THAT(refusal("19_lfs_pointer.safetensors"), HasSubstr("git lfs pull"));
  EXPECT_THAT(refusal("23_deep_nesting.safetensors"), HasSubstr("nested"));
}

TEST(SafetensorsFile, RefusesAnOldPickleAndAWebPageByName) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a.safetensors", "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
  EXPECT_THAT(message_of<FormatError>([&] { SafetensorsFile::open(folder / "a.safetensors"); }),
              HasSubstr("pickle"));
  write_file_atomically(folder / "b.safetensors", "<!DOCTYPE html><html>Sign in</html>");
  EXPECT_THAT(message_of<FormatError>([&] { SafetensorsFile::open(folder / "b.safetensors"); }),
              HasSubstr("web page"));
  EXPECT_THROW(SafetensorsFile::open(folder / "gone.safetensors"), SystemError);
}

// A zero dim does not excuse dims whose product would overflow on the way.
TEST(SafetensorsFile, RefusesAnOverflowBehindAZero) {
  const TemporaryFolder folder;
  const auto path = file_with(
      folder,
      R"({"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904,0],"data_offsets":[0,0]}})", 0);
  EXPECT_THAT(message_of<FormatError>([&] { SafetensorsFile::open(path); }), HasSubstr("too large"));
}

TEST(SafetensorsFile, ANameWithControlCharactersStaysOneLine) {
  const TemporaryFolder folder;
  const auto path =
      file_with(folder, R"({"a\n\u001b[2J":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8);
  EXPECT_THAT(message_of<FormatError>([&] { SafetensorsFile::open(path); }), HasSubstr("a\\x0A\\x1B[2J"));
}

TEST(SafetensorsFile, ListsTensorsInTheOrderOfTheirData) {
  const TemporaryFolder folder;
  const auto path = file_with(folder,
                              R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                              R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                              R"("scalar":{"dtype":"F16","shape":[],"data_offsets":[3,5]}})",
                              5);
  SafetensorsFile first = SafetensorsFile::open(path);
  const SafetensorsFile file = std::move(first);
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "b");
  EXPECT_EQ(file.find("scalar")->numel(), 1);
  EXPECT_EQ(file.find("scalar")->bytes.size(), 2u);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TemporaryFolder folder;
  const std::vector<float> values{1.5f, -2.0f, 3.25f, 0.0f, 5.0f, 6.0f};
  SafetensorsWriter writer(folder / "a.safetensors", {{"flags", DType::u8, {3}},
                                                      {"weight", DType::f32, {2, 3}},
                                                      {"empty", DType::f32, {0, 4}},
                                                      {"scalar", DType::f32, {}}});
  std::vector<std::string> order;
  for (const TensorSpec& tensor : writer.tensors()) order.push_back(tensor.name);
  EXPECT_EQ(order, (std::vector<std::string>{"weight", "empty", "scalar", "flags"}));

  const auto bytes = bytes_of(values);
  writer.write("weight", std::span(bytes).first(10));
  writer.write("weight", std::span(bytes).subspan(10));
  writer.write("empty", {});
  writer.write("scalar", bytes_of({7.0f}));
  writer.write("flags", std::vector<std::byte>{std::byte{1}, std::byte{0}, std::byte{1}});
  EXPECT_FALSE(fs::exists(folder / "a.safetensors"));
  writer.commit();

  const SafetensorsFile file = SafetensorsFile::open(folder / "a.safetensors");
  EXPECT_EQ(values_of(*file.find("weight")), values);
  EXPECT_EQ(file.find("weight")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(values_of(*file.find("scalar")), std::vector<float>{7.0f});
  EXPECT_EQ(file.find("flags")->bytes[2], std::byte{1});
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  for (const TensorView& tensor : file.tensors())  // aligned, as torch needs it
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(tensor.bytes.data()) % static_cast<uintptr_t>(size_of(tensor.dtype)), 0u);
}

TEST(SafetensorsWriter, RefusesDataOutOfTurnTooMuchAndTooLittle) {
  const TemporaryFolder folder;
  {
    SafetensorsWriter writer(folder / "a", {{"a", DType::f32, {2}}, {"b", DType::f32, {1}}});
    EXPECT_THAT(message_of<StateError>([&] { writer.write("b", bytes_of({1})); }), HasSubstr("turn of a"));
    EXPECT_THAT(message_of<StateError>([&] {
                  writer.write("a", bytes_of({1, 2, 3}));
                }),
                HasSubstr("12 bytes for a"));
    writer.write("a", bytes_of({1, 2}));
    EXPECT_THAT(message_of<StateError>([&] { writer.commit(); }), HasSubstr("data of b is missing"));
    writer.write("b", bytes_of({3}));
    EXPECT_THROW(writer.write("b", bytes_of({3})), StateError);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_THROW(SafetensorsWriter(folder / "a", {{"a", DType::f32, {}}, {"a", DType::f32, {}}}), StateError);
  EXPECT_THROW(SafetensorsWriter(folder / "a", {{"a", DType::f32, {-1}}}), StateError);
}

// What the reference library reads and what it writes are the same bytes as here.
TEST(SafetensorsWriter, WritesTheBytesOfTheReferenceLibrary) {
  const fs::path path = fixture("cases/models/tiny-llama/model.safetensors");
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_NE(file.find("model.norm.weight"), nullptr);
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "again", {file.tensors().begin(), file.tensors().end()}, file.metadata());
  for (const TensorView& tensor : file.tensors()) writer.write(tensor.name, tensor.bytes);
  writer.commit();
  EXPECT_TRUE(read_text_file(folder / "again") == read_text_file(path));
}

}  // namespace
}  // namespace duoka::io
