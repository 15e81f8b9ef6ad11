// SPDX-License-Identifier: Apache-2.0
#include "train/shard_file.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/json.h"
#include "duoka/model/weights.h"

namespace duoka::train {

using model::file_dtype;
using parallel::Slot;

namespace {

constexpr const char* slices_key = "slices";

std::string entry_name(const Slot& slot, const std::string& what) {
  return slot.parameter->name + "/" + what;
}

/// Calls `visit(name, tensor)` for everything a slot holds.
template <class SlotType, class Visit>
void for_each_entry(SlotType& slot, const Visit& visit) {
  visit(entry_name(slot, "master"), slot.master);
  for (auto& [what, tensor] : slot.state) visit(entry_name(slot, what), tensor);
}

bool is_per_element(const Slot& slot, const at::Tensor& tensor) {
  return tensor.dim() == slot.master.dim() && tensor.sizes() == slot.master.sizes();
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::ostringstream out;
  out << at::IntArrayRef(shape);
  return out.str();
}

std::vector<int64_t> require_sizes(const io::Json& object, const char* key, const std::string& origin) {
  std::vector<int64_t> sizes;
  for (const io::Json& value : io::require_array(object, key, origin)) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0)
      throw FormatError(origin + ": \"" + key + "\" of a slice is not a list of sizes");
    sizes.push_back(value.get<int64_t>());
  }
  return sizes;
}

/// Copies the file's tensor into memory of torch: mapped bytes may lie at any address.
at::Tensor to_tensor(const io::TensorView& view, at::ScalarType dtype, const std::string& origin) {
  if (view.dtype != file_dtype(dtype))
    throw FormatError(text(origin, ": ", view.name, " is ", io::safetensors_name(view.dtype),
                           "; this run keeps it as ", io::safetensors_name(file_dtype(dtype))));
  at::Tensor tensor = at::empty(view.shape, dtype);
  if (!view.bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
  return tensor;
}

}  // namespace

std::vector<std::string> entry_names(const Slot& slot) {
  std::vector<std::string> names;
  for_each_entry(slot, [&](const std::string& name, const at::Tensor&) { names.push_back(name); });
  return names;
}

void write_shard(const std::filesystem::path& path, std::span<const Slot> slots, const Log* log) {
  const at::NoGradGuard no_grad;
  std::vector<io::TensorSpec> specs;
  std::map<std::string, std::pair<const Slot*, at::Tensor>> tensors;
  io::Json slices = io::Json::object();
  int64_t num_bytes = 0;
  for (const Slot& slot : slots) {
    if (!slot.is_primary) continue;
    slices[slot.parameter->name] = {{"global_shape", slot.parameter->global_shape}, {"offset", slot.offset}};
    for_each_entry(slot, [&](const std::string& name, const at::Tensor& tensor) {
      specs.push_back({name, file_dtype(tensor.scalar_type()), tensor.sizes().vec()});
      tensors[name] = {&slot, tensor};
      num_bytes += static_cast<int64_t>(tensor.nbytes());
    });
  }
  io::SafetensorsWriter writer(path, specs, {{"format", "pt"}, {slices_key, slices.dump()}});
  std::optional<Progress> progress;
  if (log != nullptr) progress.emplace(*log, "writing checkpoint", num_bytes, "byte");
  std::optional<parallel::SlotLease> lease;  // what a slot holds comes together, but for the step count
  const Slot* leased = nullptr;
  for (const io::TensorSpec& spec : writer.tensors()) {
    const auto& [slot, held] = tensors.at(spec.name);
    if (slot != leased) lease.emplace(*slot);
    leased = slot;
    const at::Tensor tensor = held.to(at::kCPU).contiguous();
    writer.write(spec.name, {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
    if (progress) progress->advance(static_cast<int64_t>(tensor.nbytes()));
  }
  writer.commit();
}

ShardReader::ShardReader(std::filesystem::path folder, const std::vector<std::filesystem::path>& paths)
    : folder_(std::move(folder)) {
  for (const auto& path : paths) {
    io::SafetensorsFile file = io::SafetensorsFile::open(path);
    auto boxes = read_boxes(file);
    shards_.push_back({std::move(file), std::move(boxes)});
  }
}

std::map<std::string, ShardReader::Box> ShardReader::read_boxes(const io::SafetensorsFile& file) {
  const std::string origin = file.path().string();
  const auto found = file.metadata().find(slices_key);
  if (found == file.metadata().end()) throw FormatError(origin + ": metadata \"slices\" is missing");
  const io::Json slices = io::parse_json(found->second, origin);
  if (!slices.is_object()) throw FormatError(origin + ": metadata \"slices\" is not an object");
  std::map<std::string, Box> boxes;
  for (const auto& [name, slice] : slices.items()) {
    Box box{require_sizes(slice, "global_shape", origin), require_sizes(slice, "offset", origin)};
    if (box.offset.size() != box.global_shape.size())
      throw FormatError(origin + ": offset and global_shape of " + name + " differ in length");
    boxes.emplace(name, std::move(box));
  }
  return boxes;
}

std::set<std::string> ShardReader::entry_names() const {
  std::set<std::string> names;
  for (const Shard& shard : shards_)
    for (const io::TensorView& view : shard.file.tensors()) names.insert(view.name);
  return names;
}

void ShardReader::read(Slot& slot) const {
  const at::NoGradGuard no_grad;
  for_each_entry(slot, [&](const std::string& name, at::Tensor& tensor) {
    if (is_per_element(slot, tensor))
      read_box(slot, name, tensor);
    else
      read_whole(name, tensor);
  });
}

void ShardReader::read_whole(const std::string& name, at::Tensor& into) const {
  for (const Shard& shard : shards_) {
    const io::TensorView* view = shard.file.find(name);
    if (view == nullptr) continue;
    const std::string origin = shard.file.path().string();
    if (into.sizes() != at::IntArrayRef(view->shape))
      throw FormatError(text(origin, ": ", name, " has shape ", shape_text(view->shape), "; wanted ",
                             shape_text(into.sizes().vec())));
    into.copy_(to_tensor(*view, into.scalar_type(), origin));
    return;
  }
  throw FormatError(text(folder_.string(), " has no ", name,
                         "; it was made with another model, optimizer or selection of what is trained"));
}

void ShardReader::read_box(const Slot& slot, const std::string& name, at::Tensor& into) const {
  int64_t covered = 0;
  for (const Shard& shard : shards_) {
    const io::TensorView* view = shard.file.find(name);
    if (view == nullptr) continue;
    const std::string origin = shard.file.path().string();
    const auto found = shard.boxes.find(slot.parameter->name);
    if (found == shard.boxes.end()) throw FormatError(origin + ": no slice is given for " + name);
    const Box& box = found->second;
    if (box.global_shape != slot.parameter->global_shape || view->shape.size() != box.offset.size())
      throw FormatError(text(origin, ": ", slot.parameter->name, " has shape ", shape_text(box.global_shape),
                             " in the checkpoint and ", shape_text(slot.parameter->global_shape),
                             " in this run"));
    at::Tensor to = into;
    at::Tensor from = to_tensor(*view, into.scalar_type(), origin);
    for (int64_t dim = 0; dim < into.dim(); ++dim) {
      const auto d = static_cast<size_t>(dim);
      const int64_t begin = std::max(slot.offset[d], box.offset[d]);
      const int64_t end = std::min(slot.offset[d] + into.size(dim), box.offset[d] + view->shape[d]);
      const int64_t length = std::max<int64_t>(0, end - begin);
      to = to.narrow(dim, length > 0 ? begin - slot.offset[d] : 0, length);
      from = from.narrow(dim, length > 0 ? begin - box.offset[d] : 0, length);
    }
    to.copy_(from);
    covered += to.numel();
  }
  if (covered != into.numel())
    throw FormatError(
        text(folder_.string(), " has ", covered, " elements for the ", into.numel(), " of ", name,
             " that this run needs; it was made with another model, optimizer or selection of what is "
             "trained, or a part of it is missing"));
}

}  // namespace duoka::train
