// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/tensorboard.h"

#include <array>
#include <chrono>
#include <cstring>
#include <string>

#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "train/append_file.h"
#include "train/crc32c.h"

// Formats: a TFRecord is length (u64), masked CRC of the length, data, masked CRC of the data, all little-
// endian (tensorflow/core/lib/io/record_writer.h). The data is the protobuf message Event
// (tensorflow/core/util/event.proto): 1 wall_time double, 2 step int64, 3 file_version string, 5 summary;
// Summary.value is 1, Summary.Value has 1 tag and 2 simple_value float.

namespace duoka::train {

namespace {

enum class WireType : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, unsigned field, WireType type) {
  put_varint(out, field << 3 | static_cast<unsigned>(type));
}

/// `value`'s bytes, little-endian as the machines this runs on.
template <class Number>
void put_fixed(std::string& out, Number value) {
  std::array<char, sizeof value> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  out.append(bytes.data(), bytes.size());
}

void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_key(out, field, WireType::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string event_at_now() {
  std::string event;
  put_key(event, 1, WireType::fixed64);
  put_fixed(event, unix_seconds());
  return event;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw SystemError(text("cannot make ", folder.string(), ": ", error.message()));
  path_ = folder / text("events.out.tfevents.", static_cast<int64_t>(unix_seconds()), ".", host_name(), ".",
                        ::getpid(), ".duoka");
  descriptor_ = open_for_append(path_);
  std::string event = event_at_now();
  put_bytes(event, 3, "brain.Event:2");
  write_record(event);
}

EventFile::~EventFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void EventFile::add_scalar(std::string_view tag, double value, int64_t step) {
  std::string entry;
  put_bytes(entry, 1, tag);
  put_key(entry, 2, WireType::fixed32);
  put_fixed(entry, static_cast<float>(value));
  std::string summary;
  put_bytes(summary, 1, entry);

  std::string event = event_at_now();
  put_key(event, 2, WireType::varint);
  put_varint(event, static_cast<uint64_t>(step));
  put_bytes(event, 5, summary);
  write_record(event);
}

void EventFile::write_record(std::string_view event) {
  std::string record;
  put_fixed(record, static_cast<uint64_t>(event.size()));
  put_fixed(record, masked_crc32c(record));
  record += event;
  put_fixed(record, masked_crc32c(event));
  append(descriptor_, record, path_);
}

}  // namespace duoka::train
