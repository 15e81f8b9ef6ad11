// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "duoka/io/json.h"
#include "duoka/io/safetensors.h"

namespace duoka::io {

/// A model as Hugging Face lays it out: config.json and weights in model.safetensors, or in shards with
/// model.safetensors.index.json. It knows files, not models: that all tensors of an architecture are there is
/// the reader's to check (through find()).
class ModelFolder {
 public:
  /// Maps all weight files; data is not read. Throws FormatError naming the file or tensor when there is no
  /// config.json, a shard of the index is missing, an index names a file outside the folder, both layouts are
  /// present, a tensor is in two shards, or there are only PyTorch pickles (saying how to convert them).
  static ModelFolder open(const std::filesystem::path& path);
  ~ModelFolder();
  ModelFolder(ModelFolder&&) noexcept;
  ModelFolder& operator=(ModelFolder&&) noexcept;

  const std::filesystem::path& path() const;
  const Json& config() const;
  /// Null when the folder has no generation_config.json.
  const Json* generation_config() const;

  /// The tensor called `name`; null when the folder does not have it. Throws FormatError when the index
  /// promises it but the shard does not hold it.
  const TensorView* find(std::string_view name) const;
  /// Of all tensors that are there, sorted.
  std::vector<std::string> names() const;
  /// The weight files.
  const std::vector<std::filesystem::path>& files() const;

 private:
  struct Contents;
  explicit ModelFolder(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

/// Writes the weights of a model into an existing folder (an AtomicDirectory's, say): model.safetensors, or
/// model-0000i-of-0000n.safetensors and their index when they take more than `max_shard_bytes`. No tensor is
/// held; a tensor is never divided, so a larger one gets a shard of its own.
class WeightsWriter {
 public:
  /// Throws StateError for duplicate names.
  WeightsWriter(std::filesystem::path folder, std::vector<TensorSpec> tensors,
                int64_t max_shard_bytes = int64_t{5'000'000'000});
  ~WeightsWriter();

  /// The order in which the data must be written.
  const std::vector<TensorSpec>& tensors() const { return order_; }
  /// As SafetensorsWriter::write().
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// Finishes the last shard, writes the index, and removes the weights of an earlier save of another number
  /// of shards. Throws StateError when data is missing.
  void commit();

 private:
  void open_shard(size_t shard);
  void finish_full_shards();

  std::filesystem::path folder_;
  std::vector<std::vector<TensorSpec>> shards_;
  std::vector<TensorSpec> order_;
  size_t shard_ = 0;
  std::unique_ptr<SafetensorsWriter> writer_;
};

}  // namespace duoka::io
