// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "duoka/core/log.h"
#include "duoka/io/safetensors.h"
#include "duoka/parallel/slot.h"

namespace duoka::train {

// One rank's part of a checkpoint's tensors. Entries are "<parameter>/<what>" with what = master or a state's
// name; the metadata "slices" tells global shape and offset of each parameter's slice. An entry whose shape
// is not the slice's (a step count) is stored as it is and belongs to the whole parameter.

/// "<parameter>/<what>" for all that a slot holds.
std::vector<std::string> entry_names(const parallel::Slot& slot);

/// Writes the primary ones of `slots`. Progress goes to `log` when given.
void write_shard(const std::filesystem::path& path, std::span<const parallel::Slot> slots, const Log* log);

/// All shard files of a checkpoint, for reading any slice.
class ShardReader {
 public:
  /// Opens `paths`, those of the checkpoint `folder`; reads headers only. Throws FormatError.
  ShardReader(std::filesystem::path folder, const std::vector<std::filesystem::path>& paths);

  /// Fills master and state of `slot`. Throws FormatError when an entry is not covered exactly once, or
  /// shapes or dtypes differ.
  void read(parallel::Slot& slot) const;

  std::set<std::string> entry_names() const;

 private:
  struct Box {
    std::vector<int64_t> global_shape;
    std::vector<int64_t> offset;
  };
  struct Shard {
    io::SafetensorsFile file;
    std::map<std::string, Box> boxes;  // by parameter
  };
  void read_whole(const std::string& name, at::Tensor& into) const;
  void read_box(const parallel::Slot& slot, const std::string& name, at::Tensor& into) const;
  static std::map<std::string, Box> read_boxes(const io::SafetensorsFile& file);

  std::filesystem::path folder_;
  std::vector<Shard> shards_;
};

}  // namespace duoka::train
