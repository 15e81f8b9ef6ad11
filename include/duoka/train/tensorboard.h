// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace duoka::train {

/// Scalars as a TensorBoard event file: TFRecord framing with masked CRC32C, the Event message by hand (no
/// protobuf). Each record is flushed.
class EventFile {
 public:
  /// Makes a new file events.out.tfevents.<seconds>.<host>.<pid>.duoka in `folder` (made if missing).
  /// Throws SystemError with path and reason.
  explicit EventFile(const std::filesystem::path& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void add_scalar(std::string_view tag, double value, int64_t step);
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_record(std::string_view event);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace duoka::train
