// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/data/dataset.h"
#include "duoka/io/json.h"

namespace duoka::data {

namespace {

namespace fs = std::filesystem;
using io::Json;

/// dataset_info.json as far as it is read: entries by name.
struct Info {
  std::string path;
  Json entries = Json::object();
};

Info read_info(const fs::path& folder) {
  Info info{(folder / "dataset_info.json").string()};
  if (!fs::exists(info.path)) return info;
  info.entries = io::read_json_file(info.path);
  if (!info.entries.is_object())
    throw DataError(info.path + ": found no object, wanted one entry a data set");
  return info;
}

void refuse_what_there_is_not(const Json& entry, const std::string& where) {
  for (const char* key : {"hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name"})
    if (entry.contains(key) && !entry.contains("file_name"))
      throw DataError(text(where, ": '", key, "': data is not downloaded here; give a local 'file_name'"));
  if (io::optional_bool(entry, "ranking", where).value_or(false))
    throw DataError(where + ": 'ranking': preference pairs; there is no preference training here");
  const Json* columns = io::optional_object(entry, "columns", where);
  for (const char* key : {"chosen", "rejected", "kto_tag", "images", "videos", "audios"})
    if (columns != nullptr && columns->contains(key))
      throw DataError(text(where, ": column '", key, "' is not supported"));
}

RowShape shape_of(const Json& entry, const std::string& where) {
  const auto formatting = io::optional_string(entry, "formatting", where);
  // LLaMA-Factory takes alpaca when nothing is said; where no columns are named either, keys tell as well.
  if (!formatting) return entry.contains("columns") ? RowShape::alpaca : RowShape::detect;
  for (const RowShape shape : {RowShape::alpaca, RowShape::sharegpt, RowShape::openai})
    if (*formatting == shape_name(shape)) return shape;
  throw DataError(text(where, ": formatting '", *formatting, "'; wanted alpaca, sharegpt or openai"));
}

using Field = std::pair<const char*, std::string RowFormat::*>;

void read_fields(const Json& entry, const char* group, std::span<const Field> fields,
                 const std::string& where, RowFormat& format) {
  const Json* object = io::optional_object(entry, group, where);
  if (object == nullptr) return;
  for (const auto& [key, member] : fields)
    format.*member = io::optional_string(*object, key, where).value_or("");
}

RowFormat format_of(const Json& entry, const std::string& where) {
  static constexpr std::array<Field, 7> columns = {{{"prompt", &RowFormat::prompt},
                                                    {"query", &RowFormat::query},
                                                    {"response", &RowFormat::response},
                                                    {"history", &RowFormat::history},
                                                    {"system", &RowFormat::system},
                                                    {"messages", &RowFormat::messages},
                                                    {"tools", &RowFormat::tools}}};
  static constexpr std::array<Field, 5> tags = {{{"role_tag", &RowFormat::role_tag},
                                                 {"content_tag", &RowFormat::content_tag},
                                                 {"user_tag", &RowFormat::user_tag},
                                                 {"assistant_tag", &RowFormat::assistant_tag},
                                                 {"system_tag", &RowFormat::system_tag}}};
  RowFormat format;
  format.shape = shape_of(entry, where);
  read_fields(entry, "columns", columns, where, format);
  read_fields(entry, "tags", tags, where, format);
  return format;
}

/// A file is itself; of a folder each file that is not hidden, by name.
std::vector<std::string> files_at(const fs::path& path) {
  if (!fs::is_directory(path)) return {path.string()};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && !name.starts_with('.') && name != "dataset_info.json")
      files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) throw DataError(path.string() + ": a folder without files");
  return files;
}

void add_entry(const std::string& name, const Info& info, const fs::path& folder,
               std::vector<DataSource>& sources) {
  const Json& entry = info.entries[name];
  const std::string where = text(info.path, ": entry '", name, "'");
  if (!entry.is_object()) throw DataError(where + ": found no object");
  refuse_what_there_is_not(entry, where);
  const fs::path path = folder / io::require_string(entry, "file_name", where);
  if (!fs::exists(path)) throw DataError(text(where, ": there is no file ", path.string(), looked_in(path)));
  const RowFormat format = format_of(entry, where);
  const auto max_rows = io::optional_int(entry, "num_samples", where);
  if (max_rows && *max_rows < 1)
    throw DataError(text(where, ": num_samples = ", *max_rows, "; wanted at least 1"));
  for (std::string& file : files_at(path)) sources.push_back({name, std::move(file), format, max_rows});
}

[[noreturn]] void refuse_name(const std::string& name, const Info& info) {
  std::vector<std::string> known;
  for (const auto& item : info.entries.items()) known.push_back(item.key());
  const std::string near = nearest(name, known);
  throw ConfigError(text("dataset '", name, "': no such file", looked_in(name), ", and no such entry in ",
                         info.path, near.empty() ? "" : "; nearest is '" + near + "'"));
}

}  // namespace

std::vector<DataSource> find_sources(const std::vector<std::string>& names, const std::string& folder) {
  const Info info = read_info(folder);
  std::vector<DataSource> sources;
  for (const std::string& name : names) {
    if (info.entries.contains(name)) {
      add_entry(name, info, folder, sources);
      continue;
    }
    const std::array<fs::path, 2> places = {fs::path(name), fs::path(folder) / name};
    const auto place =
        std::find_if(places.begin(), places.end(), [](const fs::path& p) { return fs::exists(p); });
    if (name.empty() || place == places.end()) refuse_name(name, info);
    for (std::string& file : files_at(*place)) sources.push_back({name, std::move(file), {}, std::nullopt});
  }
  return sources;
}

}  // namespace duoka::data
