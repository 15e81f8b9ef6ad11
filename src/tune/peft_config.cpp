// SPDX-License-Identifier: Apache-2.0
#include "tune/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <regex>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/json.h"
#include "tune/module_names.h"

namespace duoka::tune {

namespace {
using io::Json;

bool is_off(const Json& value) {
  return value.is_null() || value == false || ((value.is_array() || value.is_object()) && value.empty());
}

// Keys that, when set, make peft compute something other than W x + scale * B A x, or train other tensors.
constexpr std::array unsupported_keys = {"use_dora",
                                         "use_qalora",
                                         "use_bdlora",
                                         "lora_bias",
                                         "alora_invocation_tokens",
                                         "arrow_config",
                                         "kasa_config",
                                         "monteclora_config",
                                         "velora_config",
                                         "layer_replication",
                                         "target_parameters",
                                         "trainable_token_indices",
                                         "megatron_config"};

void refuse_unsupported(const Json& json, const std::string& origin) {
  const auto type = io::require_string(json, "peft_type", origin);
  if (type != "LORA")
    throw FormatError(text(origin, ": peft_type \"", type, "\" is not supported; wanted LORA"));
  for (const char* key : unsupported_keys)
    if (json.contains(key) && !is_off(json[key]))
      throw FormatError(
          text(origin, ": ", key, " = ", json[key].dump(), " is not supported; wanted plain LoRA"));
  const auto bias = io::optional_string(json, "bias", origin).value_or("none");
  if (bias != "none")
    throw FormatError(text(origin, ": bias = \"", bias, "\" is not supported; wanted \"none\""));
  // These put something else in place of the base's weights before training.
  const auto init = json.find("init_lora_weights");
  if (init == json.end() || !init->is_string()) return;
  const auto& name = init->get_ref<const std::string&>();
  for (const char* kind : {"pissa", "olora", "corda", "loftq", "lora_ga"})
    if (name.starts_with(kind))
      throw FormatError(text(origin, ": init_lora_weights = \"", name,
                             "\" changes the base model; convert the ",
                             "adapter with peft (path_initial_model_for_weight_conversion)"));
}

std::vector<std::string> strings(const Json& json, const char* key, const std::string& origin) {
  std::vector<std::string> list;
  const Json* array = io::optional_array(json, key, origin);
  for (const Json& entry : array ? *array : Json::array()) {
    if (!entry.is_string())
      throw FormatError(text(origin, ": ", key, " holds ", entry.dump(), "; wanted names"));
    list.push_back(entry.get<std::string>());
  }
  return list;
}

void read_targets(const Json& json, const std::string& origin, PeftConfig& config) {
  if (json.contains("target_modules") && json["target_modules"].is_string())
    config.target_regex = json["target_modules"].get<std::string>();
  else
    config.target_modules = strings(json, "target_modules", origin);
  if (json.contains("exclude_modules") && json["exclude_modules"].is_string())
    config.exclude_regex = json["exclude_modules"].get<std::string>();
  else
    config.exclude_modules = strings(json, "exclude_modules", origin);
  config.modules_to_save = strings(json, "modules_to_save", origin);
  if (json.contains("layers_to_transform") && json["layers_to_transform"].is_number_integer())
    config.layers_to_transform = {json["layers_to_transform"].get<int64_t>()};
  else if (const Json* layers = io::optional_array(json, "layers_to_transform", origin))
    for (const Json& layer : *layers)
      if (layer.is_number_integer()) config.layers_to_transform.push_back(layer.get<int64_t>());
}

template <class Number>
std::map<std::string, Number> pattern(const Json& json, const char* key, const std::string& origin) {
  std::map<std::string, Number> values;
  const Json* object = io::optional_object(json, key, origin);
  if (!object) return values;
  for (const auto& [name, value] : object->items()) {
    if (!value.is_number()) throw FormatError(text(origin, ": ", key, ".", name, " is not a number"));
    values[name] = value.template get<Number>();
  }
  return values;
}

/// At 0 the adapter does nothing and learns nothing; below, it takes away what it was trained to add.
void refuse_idle_alpha(const std::string& key, double alpha, const std::string& origin) {
  if (!(alpha > 0)) throw FormatError(text(origin, ": ", key, " = ", alpha, "; wanted a number above 0"));
}
}  // namespace

PeftConfig read_peft_config(const std::filesystem::path& file) {
  const std::string origin = file.string();
  const Json json = io::read_json_file(file);
  refuse_unsupported(json, origin);
  PeftConfig config;
  config.base_model = io::optional_string(json, "base_model_name_or_path", origin).value_or("");
  config.lora.rank = io::require_int(json, "r", origin);
  config.lora.alpha = io::require_number(json, "lora_alpha", origin);
  config.lora.dropout = io::optional_number(json, "lora_dropout", origin).value_or(0);
  config.lora.use_rslora = io::optional_bool(json, "use_rslora", origin).value_or(false);
  config.ensure_weight_tying = io::optional_bool(json, "ensure_weight_tying", origin).value_or(false);
  if (config.lora.rank < 1) throw FormatError(text(origin, ": r = ", config.lora.rank, "; wanted 1 or more"));
  config.rank_pattern = pattern<int64_t>(json, "rank_pattern", origin);
  config.alpha_pattern = pattern<double>(json, "alpha_pattern", origin);
  refuse_idle_alpha("lora_alpha", config.lora.alpha, origin);
  for (const auto& [name, alpha] : config.alpha_pattern)
    refuse_idle_alpha("alpha_pattern." + name, alpha, origin);
  read_targets(json, origin, config);
  return config;
}

std::string peft_config_text(const PeftConfig& config) {
  const auto list = [](const auto& values) { return values.empty() ? Json(nullptr) : Json(values); };
  // peft sorts the keys, and so does this.
  const nlohmann::json json = {
      {"alora_invocation_tokens", nullptr},
      {"alpha_pattern", nlohmann::json(config.alpha_pattern)},
      {"arrow_config", nullptr},
      {"auto_mapping", nullptr},
      {"base_model_name_or_path", config.base_model},
      {"bias", "none"},
      {"corda_config", nullptr},
      {"ensure_weight_tying", config.ensure_weight_tying},
      {"eva_config", nullptr},
      {"exclude_modules", list(config.exclude_modules)},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"kasa_config", nullptr},
      {"layer_replication", nullptr},
      {"layers_pattern", nullptr},
      {"layers_to_transform", list(config.layers_to_transform)},
      {"loftq_config", nlohmann::json::object()},
      {"lora_alpha", config.lora.alpha == std::floor(config.lora.alpha)
                         ? nlohmann::json(static_cast<int64_t>(config.lora.alpha))
                         : nlohmann::json(config.lora.alpha)},
      {"lora_bias", false},
      {"lora_dropout", config.lora.dropout},
      {"lora_ga_config", nullptr},
      {"megatron_config", nullptr},
      {"megatron_core", "megatron.core"},
      {"modules_to_save", list(config.modules_to_save)},
      {"monteclora_config", nullptr},
      {"peft_type", "LORA"},
      {"peft_version", "0.21.0"},
      {"qalora_group_size", 16},
      {"r", config.lora.rank},
      {"rank_pattern", nlohmann::json(config.rank_pattern)},
      {"revision", nullptr},
      {"target_modules", config.target_regex.empty() ? nlohmann::json(config.target_modules)
                                                     : nlohmann::json(config.target_regex)},
      {"target_parameters", nullptr},
      {"task_type", "CAUSAL_LM"},
      {"trainable_token_indices", nullptr},
      {"use_bdlora", nullptr},
      {"use_dora", false},
      {"use_qalora", false},
      {"use_rslora", config.lora.use_rslora},
      {"velora_config", nullptr}};
  return json.dump(2) + "\n";
}

namespace {
bool matches_regex(const std::string& module, const std::string& pattern, const std::string& key) {
  try {
    return std::regex_match(module, std::regex(pattern));
  } catch (const std::regex_error& error) {
    throw FormatError(
        text("adapter_config.json: ", key, " \"", pattern, "\" is no regular expression: ", error.what()));
  }
}

bool matches_any(const std::string& module, const std::vector<std::string>& targets) {
  return std::ranges::any_of(targets, [&](const auto& target) { return matches_suffix(module, target); });
}

bool is_targeted(const PeftConfig& config, const std::string& module) {
  if (matches_any(module, config.exclude_modules)) return false;
  if (!config.exclude_regex.empty() && matches_regex(module, config.exclude_regex, "exclude_modules"))
    return false;
  if (config.target_regex == "all-linear") return true;
  if (!config.target_regex.empty()) return matches_regex(module, config.target_regex, "target_modules");
  if (!matches_any(module, config.target_modules)) return false;
  const auto& layers = config.layers_to_transform;
  return layers.empty() || std::ranges::find(layers, layer_of(module).value_or(-1)) != layers.end();
}
}  // namespace

bool matches_pattern(const std::string& module, const std::string& pattern) {
  return matches_suffix(module, pattern) ||
         matches_regex(module, "(.*\\.)?(" + pattern + ")", "rank_pattern");
}

LoraConfig lora_of(const PeftConfig& config, const std::string& module) {
  LoraConfig lora = config.lora;
  for (const auto& [name, rank] : config.rank_pattern)
    if (matches_pattern(module, name)) lora.rank = rank;
  for (const auto& [name, alpha] : config.alpha_pattern)
    if (matches_pattern(module, name)) lora.alpha = alpha;
  return lora;
}

std::vector<std::string> targeted_modules(const PeftConfig& config, const model::ModelConfig& model) {
  std::vector<std::string> modules;
  for (const auto& [name, shape] : model::linear_modules(model))
    if (is_targeted(config, name)) modules.push_back(name);
  return modules;
}

}  // namespace duoka::tune
