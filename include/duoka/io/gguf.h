// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "duoka/core/files.h"

namespace duoka::io {

/// How a GGUF tensor is stored. Values are the file's; any other id of the format is named by
/// ggml_type_name() and can be listed but not dequantised.
enum class GgmlType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  bf16 = 30
};

/// "Q4_1"; "type 77" for an id nobody knows.
std::string ggml_type_name(GgmlType type);

struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::f32;
  std::vector<int64_t> shape;        ///< Row-major, as Hugging Face has it: the file's dims reversed.
  std::span<const std::byte> bytes;  ///< Valid as long as the file is open.

  int64_t numel() const;
  /// Elements of a row (the last dim) and how many rows there are; a scalar is one row of one.
  int64_t row_length() const { return shape.empty() ? 1 : shape.back(); }
  int64_t num_rows() const;
};

/// A mapped GGUF file, version 2 or 3, little-endian. Format: github.com/ggml-org/ggml, docs/gguf.md.
class GgufFile {
 public:
  /// Maps the file and checks all of its header: each length, count and offset against the file's size
  /// before anything is allocated by it. Throws FormatError with file and reason; also for big-endian files,
  /// other versions and the parts of a split model, saying what to do.
  static GgufFile open(const std::filesystem::path& path);

  uint32_t version() const { return version_; }
  const std::filesystem::path& path() const { return file_.path(); }

  bool has(std::string_view key) const { return metadata_.contains(std::string(key)); }
  /// All metadata keys, in the order of the file.
  const std::vector<std::string>& keys() const { return keys_; }

  // Typed metadata. require_*: FormatError with file and key when it is absent; both kinds: FormatError with
  // the type found when it is another. Views point into the file.

  /// Any integer type whose value fits.
  int64_t require_int(std::string_view key) const;
  /// f32, f64 or an integer.
  double require_number(std::string_view key) const;
  bool require_bool(std::string_view key) const;
  std::string_view require_string(std::string_view key) const;
  std::optional<int64_t> optional_int(std::string_view key) const;
  std::optional<double> optional_number(std::string_view key) const;
  std::optional<bool> optional_bool(std::string_view key) const;
  std::optional<std::string_view> optional_string(std::string_view key) const;

  /// Arrays; an absent key gives an empty one.
  std::vector<std::string_view> strings(std::string_view key) const;
  std::vector<int64_t> ints(std::string_view key) const;
  std::vector<float> floats(std::string_view key) const;

  /// In the order of the file.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// Null when there is none of that name.
  const GgufTensor* find(std::string_view name) const;

 private:
  friend class GgufReader;
  struct Value {
    uint32_t type = 0;  ///< The file's value type; of the elements for an array.
    bool is_array = false;
    uint64_t count = 1;                ///< Elements of an array.
    std::span<const std::byte> bytes;  ///< Scalars and fixed-size elements; strings with their lengths.
  };
  const Value* value(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view key, const Value* found, std::string_view wanted) const;

  MappedFile file_;
  uint32_t version_ = 0;
  std::vector<std::string> keys_;
  std::unordered_map<std::string, Value> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, size_t> index_;
};

/// The tensor's values as f32: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, bit-equal to ggml's reference.
/// `out`: numel() values. Throws FormatError naming the quantisation and those supported for any other.
/// One thread; split the rows to use several.
void dequantize(const GgufTensor& tensor, std::span<float> out);
/// Rows [first_row, first_row + num_rows) only. `out`: num_rows * row_length() values.
void dequantize_rows(const GgufTensor& tensor, int64_t first_row, int64_t num_rows, std::span<float> out);

}  // namespace duoka::io
