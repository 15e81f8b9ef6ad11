// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/model_folder.h"
#include "io/weight_names.h"

namespace duoka::io {

namespace {

/// Fills shards in order, each up to `max_bytes` or with one tensor.
std::vector<std::vector<TensorSpec>> divide(std::vector<TensorSpec> tensors, int64_t max_bytes) {
  std::vector<std::vector<TensorSpec>> shards(1);
  int64_t filled = 0;
  for (TensorSpec& tensor : tensors) {
    const int64_t bytes = tensor.num_bytes();
    if (!shards.back().empty() && filled + bytes > max_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

std::string file_name(size_t shard, size_t num_shards) {
  return num_shards == 1 ? single_name : shard_name(shard, num_shards);
}

/// Weights of an earlier save, of another number of shards: beside the new ones they make a folder that says
/// two things. Called when the new ones are complete.
void remove_others(const std::filesystem::path& folder, size_t num_shards) {
  std::unordered_set<std::string> ours;
  for (size_t i = 0; i < num_shards; ++i) ours.insert(file_name(i, num_shards));
  if (num_shards > 1) ours.insert(index_name);
  std::vector<std::filesystem::path> others;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_weights = name == single_name || name == index_name || is_shard(name);
    if (is_weights && !ours.contains(name)) others.push_back(entry.path());
  }
  for (const auto& path : others) std::filesystem::remove(path);
}

Json index_of(const std::vector<std::vector<TensorSpec>>& shards) {
  Json map = Json::object();
  auto& entries = map.get_ref<Json::object_t&>();
  int64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i)
    for (const TensorSpec& tensor : shards[i]) {
      entries.emplace_back(tensor.name, file_name(i, shards.size()));
      total += tensor.num_bytes();
    }
  return Json{{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
}

}  // namespace

WeightsWriter::WeightsWriter(std::filesystem::path folder, std::vector<TensorSpec> tensors,
                             int64_t max_shard_bytes)
    : folder_(std::move(folder)) {
  std::unordered_set<std::string_view> names;
  for (const TensorSpec& tensor : tensors)
    if (!names.insert(tensor.name).second)
      throw StateError(text("the tensor ", tensor.name, " is given twice"));
  shards_ = divide(std::move(tensors), max_shard_bytes);
  for (std::vector<TensorSpec>& shard : shards_) {
    // The writer of a shard would sort it so; done here to tell the order of all before the first is open.
    std::stable_sort(shard.begin(), shard.end(), [](const TensorSpec& a, const TensorSpec& b) {
      return size_of(a.dtype) > size_of(b.dtype);
    });
    order_.insert(order_.end(), shard.begin(), shard.end());
  }
  open_shard(0);
}

WeightsWriter::~WeightsWriter() = default;

void WeightsWriter::open_shard(size_t shard) {
  shard_ = shard;
  writer_ = std::make_unique<SafetensorsWriter>(folder_ / file_name(shard, shards_.size()), shards_[shard]);
}

/// A loop, for a shard that holds only empty tensors is full before anything is written to it.
void WeightsWriter::finish_full_shards() {
  while (writer_->is_full() && shard_ + 1 < shards_.size()) {
    writer_->commit();
    open_shard(shard_ + 1);
  }
}

void WeightsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  finish_full_shards();
  writer_->write(name, bytes);
}

void WeightsWriter::commit() {
  finish_full_shards();
  writer_->commit();
  // The index last: a folder without it, or with the one of before, is what a failed save leaves.
  if (shards_.size() > 1) write_file_atomically(folder_ / index_name, index_of(shards_).dump(2) + "\n");
  remove_others(folder_, shards_.size());
}

}  // namespace duoka::io
