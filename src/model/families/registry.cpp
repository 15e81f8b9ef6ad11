// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/model/config.h"
#include "duoka/model/families.h"

namespace duoka::model {

std::span<const Family* const> families() {
  static constexpr std::array all = {&llama_family, &mistral_family, &qwen2_family, &qwen3_family};
  return all;
}

namespace {
[[noreturn]] void refuse(std::string_view found, const char* key, const std::string& origin) {
  std::vector<std::string> names;
  for (const Family* family : families()) names.emplace_back(family->name);
  throw FormatError(
      text(origin, ": ", key, " \"", found, "\" is not supported; supported are ", join(names)));
}
}  // namespace

const Family& family_of(std::string_view model_type, const std::string& origin) {
  for (const Family* family : families())
    if (family->name == model_type) return *family;
  refuse(model_type, "model_type", origin);
}

const Family& family_of_gguf(std::string_view architecture, const std::string& origin) {
  for (const Family* family : families())
    if (family->gguf_name == architecture) return *family;
  refuse(architecture, "general.architecture", origin);
}

int64_t read_window(const io::Json& json, const std::string& origin) {
  if (!json.contains("sliding_window")) return 4096;
  const int64_t window = io::optional_int(json, "sliding_window", origin).value_or(0);
  if (window < 0)
    throw FormatError(text(origin, ": sliding_window = ", window, "; wanted a positive number or null"));
  return window;
}

namespace {
bool is_windowed_type(const io::Json& type, const std::string& origin) {
  if (type == "sliding_attention") return true;
  if (type == "full_attention") return false;
  throw FormatError(text(origin, ": layer_types holds ", type.dump(),
                         "; supported are \"full_attention\" and \"sliding_attention\""));
}
}  // namespace

void read_layer_windows(const io::Json& json, const std::string& origin, ModelConfig& config) {
  const bool is_on = io::optional_bool(json, "use_sliding_window", origin).value_or(false);
  const int64_t window = is_on ? read_window(json, origin) : 0;
  const int64_t first = io::optional_int(json, "max_window_layers", origin).value_or(28);
  const io::Json* types = io::optional_array(json, "layer_types", origin);
  if (types && static_cast<int64_t>(types->size()) != config.num_layers)
    throw FormatError(text(origin, ": layer_types has ",
                           counted(static_cast<int64_t>(types->size()), "entry"), " for ",
                           counted(config.num_layers, "layer")));
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool is_windowed = types ? is_windowed_type((*types)[at], origin) : i >= first;
    config.windows[at] = is_windowed ? window : 0;
  }
}

}  // namespace duoka::model
