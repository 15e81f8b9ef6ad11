// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/json.h"
#include "duoka/io/safetensors.h"

namespace duoka::io {

namespace {

void expect_sound(const std::vector<TensorSpec>& tensors) {
  std::unordered_set<std::string_view> names;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second)
      throw StateError(text("a safetensors file cannot hold the name ", tensor.name, " (again)"));
    for (const int64_t dim : tensor.shape)
      if (dim < 0) throw StateError(text("tensor ", tensor.name, " has a dim of ", dim));
  }
}

std::string header_of(const std::vector<TensorSpec>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  auto& members = header.get_ref<Json::object_t&>();
  members.reserve(tensors.size() + 1);
  if (!metadata.empty()) members.emplace_back("__metadata__", metadata);
  int64_t begin = 0;
  for (const TensorSpec& tensor : tensors) {
    const int64_t end = begin + tensor.num_bytes();
    // emplace_back instead of [], which would look for each name among all before it.
    members.emplace_back(tensor.name, Json{{"dtype", safetensors_name(tensor.dtype)},
                                           {"shape", tensor.shape},
                                           {"data_offsets", {begin, end}}});
    begin = end;
  }
  std::string bytes = header.dump();
  bytes.resize((bytes.size() + 7) / 8 * 8, ' ');  // the format's padding: data begins at a multiple of 8
  return bytes;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::vector<TensorSpec> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(std::move(path)), tensors_(std::move(tensors)) {
  expect_sound(tensors_);
  std::stable_sort(tensors_.begin(), tensors_.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return size_of(a.dtype) > size_of(b.dtype);
  });
  const std::string header = header_of(tensors_, metadata);
  const uint64_t length = header.size();
  std::array<char, sizeof length> prefix;
  std::memcpy(prefix.data(), &length, sizeof length);
  file_.write(std::string(prefix.data(), prefix.size()) + header);
  skip_full();
}

void SafetensorsWriter::skip_full() {
  while (current_ < tensors_.size() && written_ == tensors_[current_].num_bytes()) {
    ++current_;
    written_ = 0;
  }
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  // An empty tensor is full from the start and has been skipped: nothing to write is always in order.
  if (bytes.empty()) return;
  if (current_ == tensors_.size())
    throw StateError(text(file_.path().string(), ": data for ", name, " after the last tensor was full"));
  const TensorSpec& tensor = tensors_[current_];
  if (tensor.name != name)
    throw StateError(
        text(file_.path().string(), ": data for ", name, ", but it is the turn of ", tensor.name));
  if (static_cast<int64_t>(bytes.size()) > tensor.num_bytes() - written_)
    throw StateError(text(file_.path().string(), ": ", written_ + static_cast<int64_t>(bytes.size()),
                          " bytes for ", name, ", which has ", tensor.num_bytes()));
  file_.write(bytes);
  written_ += static_cast<int64_t>(bytes.size());
  skip_full();
}

void SafetensorsWriter::commit() {
  if (current_ != tensors_.size())
    throw StateError(text(file_.path().string(), ": data of ", tensors_[current_].name, " is missing"));
  file_.commit();
}

}  // namespace duoka::io
