// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/model_folder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "io/weight_names.h"

namespace duoka::io {

namespace fs = std::filesystem;

struct ModelFolder::Contents {
  fs::path path;
  Json config;
  std::optional<Json> generation_config;
  std::vector<fs::path> files;
  std::vector<SafetensorsFile> opened;
  std::unordered_map<std::string, const TensorView*> tensors;
  /// Of the index: tensors promised in a file that does not hold them, and that file.
  std::unordered_map<std::string, std::string> broken_promises;
};

namespace {

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw FormatError(text(path.string(), ": ", printable(why)));
}

/// Tensor name -> file name, as an index says it.
using WeightMap = std::map<std::string, std::string>;

/// A file's name in an index must be just that: with a path in it, it could point at any file of the machine.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

WeightMap read_index(const fs::path& path) {
  const Json index = read_json_file(path);
  const Json& entries = require_object(index, "weight_map", path.string());
  WeightMap map;
  for (const auto& [tensor, file] : entries.get_ref<const Json::object_t&>()) {
    if (!file.is_string())
      refuse(path, text("weight_map \"", tensor, "\" is ", file.type_name(), "; wanted a file name"));
    const auto name = file.get<std::string>();
    if (!is_plain_name(name))
      refuse(path, text("weight_map \"", tensor,
                        "\": a file name in the index may not hold a path separator or be .., found \"", name,
                        "\""));
    map.emplace(tensor, name);
  }
  if (map.empty()) refuse(path, "its weight_map is empty");
  return map;
}

/// Names like model-00001-of-00003.safetensors, of which all must be there; empty when there are none.
std::vector<std::string> shards_without_index(const fs::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_shard(name)) found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string wanted = shard_name(i, found.size());
    if (found[i] != wanted)
      refuse(folder, text("has shards but no ", index_name, ", and they are not 1 to ", found.size(), ": ",
                          wanted, " is missing; download the folder again"));
  }
  return found;
}

[[noreturn]] void refuse_no_weights(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("pytorch_model") && (name.ends_with(".bin") || name.ends_with(".bin.index.json")))
      refuse(folder, text("has its weights as a Python pickle (", name,
                          "), which can run code when it is loaded; convert it in Python: "
                          "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW_DIR)"));
    if (name.ends_with(".gguf"))
      refuse(folder, text("has no safetensors; to use ", name, " give its own path"));
    if (name == "adapter_config.json")
      refuse(folder, "is an adapter, not a model; give the base model here and this folder as the adapter");
  }
  refuse(folder, text("has no weights; wanted ", single_name, " or ", index_name, " with its shards"));
}

/// Names of the weight files to open, sorted.
std::vector<std::string> weight_files(const fs::path& folder, const WeightMap& map) {
  if (map.empty()) {
    if (fs::exists(folder / single_name)) return {single_name};
    std::vector<std::string> shards = shards_without_index(folder);
    if (shards.empty()) refuse_no_weights(folder);
    return shards;
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) {
    if (names.insert(file).second && !fs::exists(folder / file))
      refuse(folder,
             text(file, " is missing, where ", index_name, " has ", tensor, "; download the folder again"));
  }
  if (fs::exists(folder / single_name) && !names.contains(single_name))
    refuse(folder,
           text("has both ", single_name, " and ", index_name, " with shards; remove whichever is stale"));
  return {names.begin(), names.end()};
}

}  // namespace

ModelFolder ModelFolder::open(const fs::path& path) {
  if (!fs::is_directory(path))
    throw FormatError(text(path.string(), fs::exists(path) ? ": not a folder" : ": no such folder",
                           "; wanted a model as a Hugging Face folder"));
  auto contents = std::make_unique<Contents>();
  contents->path = path;
  if (!fs::exists(path / "config.json")) {
    // An adapter or a heap of pickles says more about the mistake than the missing file does.
    if (!fs::exists(path / single_name) && !fs::exists(path / index_name)) refuse_no_weights(path);
    refuse(path, "has no config.json");
  }
  contents->config = read_json_file(path / "config.json");
  if (!contents->config.is_object()) refuse(path / "config.json", "it is no JSON object");
  if (fs::exists(path / "generation_config.json"))
    contents->generation_config = read_json_file(path / "generation_config.json");

  const WeightMap map = fs::exists(path / index_name) ? read_index(path / index_name) : WeightMap{};
  const std::vector<std::string> files = weight_files(path, map);
  contents->opened.reserve(files.size());
  for (const std::string& file : files) {
    contents->files.push_back(path / file);
    contents->opened.push_back(SafetensorsFile::open(path / file));
    for (const TensorView& tensor : contents->opened.back().tensors())
      if (!contents->tensors.emplace(tensor.name, &tensor).second)
        refuse(path, text("the tensor ", tensor.name, " is in two files, one of them ", file));
  }
  for (const auto& [tensor, file] : map)
    if (!contents->tensors.contains(tensor)) contents->broken_promises.emplace(tensor, file);
  return ModelFolder(std::move(contents));
}

ModelFolder::ModelFolder(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
ModelFolder::~ModelFolder() = default;
ModelFolder::ModelFolder(ModelFolder&&) noexcept = default;
ModelFolder& ModelFolder::operator=(ModelFolder&&) noexcept = default;

const fs::path& ModelFolder::path() const { return contents_->path; }
const Json& ModelFolder::config() const { return contents_->config; }
const Json* ModelFolder::generation_config() const {
  return contents_->generation_config ? &*contents_->generation_config : nullptr;
}
const std::vector<fs::path>& ModelFolder::files() const { return contents_->files; }

const TensorView* ModelFolder::find(std::string_view name) const {
  const std::string key(name);
  if (const auto at = contents_->tensors.find(key); at != contents_->tensors.end()) return at->second;
  // Asked for at last: an index may list what a model with a tied head never asks for.
  if (const auto at = contents_->broken_promises.find(key); at != contents_->broken_promises.end())
    refuse(contents_->path, text(index_name, " has the tensor ", key, " in ", at->second,
                                 ", but that file does not hold it; download the folder again"));
  return nullptr;
}

std::vector<std::string> ModelFolder::names() const {
  std::vector<std::string> all;
  all.reserve(contents_->tensors.size());
  for (const auto& [name, tensor] : contents_->tensors) all.push_back(name);
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace duoka::io
