// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "duoka/core/files.h"
#include "duoka/io/dtype.h"

namespace duoka::io {

/// What a tensor in a file is.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;  ///< Row-major; empty for a scalar.

  int64_t numel() const;
  int64_t num_bytes() const { return numel() * size_of(dtype); }
};

/// A tensor in a mapped file. `bytes`: little-endian, contiguous, num_bytes() of them, of any alignment.
struct TensorView : TensorSpec {
  std::span<const std::byte> bytes;
};

/// A mapped safetensors file. Format: github.com/huggingface/safetensors.
class SafetensorsFile {
 public:
  /// Maps the file and checks all of its header; tensor data is not touched. The header may be up to 100 MB
  /// long (as in the reference library). Throws FormatError with file and reason for whatever the reference
  /// refuses (lengths and offsets outside the file, overlaps, holes, shapes that disagree with bytes,
  /// duplicates, …) and for pickles, Git LFS pointers and HTML pages under this name, saying what to do.
  static SafetensorsFile open(const std::filesystem::path& path);

  /// In the order of their data. Views stay valid as long as this object, or the one it was moved into.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// Null when there is none of that name.
  const TensorView* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  MappedFile file_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, size_t> index_;
  std::map<std::string, std::string> metadata_;
};

/// Writes a safetensors file, tensor by tensor, holding none of them. The file appears at commit().
class SafetensorsWriter {
 public:
  /// Lays the file out and writes its header. Data is laid out by element size, largest first, otherwise in
  /// the order given, so that every tensor is aligned (the reference library needs that for torch).
  /// Throws StateError when two tensors have one name or a dim is negative.
  SafetensorsWriter(std::filesystem::path path, std::vector<TensorSpec> tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  /// The order in which the data must be written.
  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  /// Appends to the data of `name`, in one piece or several. Throws StateError when it is not `name`'s turn
  /// (the tensors before it are not full yet) or there are more bytes than it has.
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// True when the data of every tensor is there.
  bool is_full() const { return current_ == tensors_.size(); }
  /// Throws StateError when data is missing. Waits for the disk.
  void commit();

 private:
  void skip_full();

  AtomicFile file_;
  std::vector<TensorSpec> tensors_;
  size_t current_ = 0;   ///< The tensor whose turn it is.
  int64_t written_ = 0;  ///< Bytes of it that are written.
};

}  // namespace duoka::io
