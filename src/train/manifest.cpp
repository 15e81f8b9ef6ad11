// SPDX-License-Identifier: Apache-2.0
#include "train/manifest.h"

#include <charconv>

#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/io/json.h"

namespace duoka::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* manifest_name = "manifest.json";
constexpr int64_t manifest_version = 1;

uint64_t checksum(const fs::path& file) {
  const MappedFile mapped = MappedFile::open(file);
  return XXH3_64bits(mapped.bytes().data(), mapped.bytes().size());
}

std::string hex(uint64_t value) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(value));
  return buffer;
}

uint64_t parse_hex(const std::string& digits, const std::string& origin) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size())
    throw FormatError(origin + ": \"" + digits + "\" is not a checksum");
  return value;
}

/// A manifest is data: it may not point the reader out of its folder.
void check_inside(const std::string& name, const std::string& origin) {
  const fs::path path(name);
  bool is_inside = !name.empty() && path.is_relative();
  for (const fs::path& part : path) is_inside = is_inside && part != "..";
  if (!is_inside) throw FormatError(origin + ": \"" + name + "\" is not a path inside the checkpoint");
}

}  // namespace

void write_manifest(const fs::path& folder) {
  Manifest sums;
  for (const auto& item : fs::recursive_directory_iterator(folder))
    if (item.is_regular_file())
      sums[item.path().lexically_relative(folder).generic_string()] = {static_cast<int64_t>(item.file_size()),
                                                                       checksum(item.path())};
  io::Json files = io::Json::object();
  for (const auto& [name, sum] : sums) files[name] = {{"bytes", sum.num_bytes}, {"xxh3", hex(sum.xxh3)}};
  const io::Json object{{"format", "duoka checkpoint"}, {"version", manifest_version}, {"files", files}};
  write_file_atomically(folder / manifest_name, object.dump(1) + "\n");
}

bool has_manifest(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / manifest_name, error);
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / manifest_name;
  const std::string origin = path.string();
  if (!fs::exists(path))
    throw FormatError(origin + " is not there: " + folder.string() +
                      " is not a complete checkpoint of duoka");
  const io::Json object = io::read_json_file(path);
  const int64_t version = io::require_int(object, "version", origin);
  if (version != manifest_version)
    throw FormatError(
        text(origin, ": version ", version, ", but this duoka reads version ", manifest_version));
  Manifest manifest;
  for (const auto& [name, sum] : io::require_object(object, "files", origin).items()) {
    check_inside(name, origin);
    manifest[name] = {io::require_int(sum, "bytes", origin),
                      parse_hex(io::require_string(sum, "xxh3", origin), origin)};
  }
  return manifest;
}

void verify_manifest(const fs::path& folder, const Manifest& manifest, bool read_bytes) {
  for (const auto& [name, sum] : manifest) {
    const fs::path file = folder / name;
    std::error_code error;
    const auto size = fs::file_size(file, error);
    if (error)
      throw FormatError(text(file.string(), " is missing: the checkpoint is damaged; use another one"));
    if (static_cast<int64_t>(size) != sum.num_bytes)
      throw FormatError(text(file.string(), " has ", size, " bytes; the checkpoint was written with ",
                             sum.num_bytes, "; use another one"));
    if (read_bytes && checksum(file) != sum.xxh3)
      throw FormatError(text(file.string(),
                             ": checksum differs from the one it was written with; use another "
                             "checkpoint"));
  }
}

}  // namespace duoka::train
