// SPDX-License-Identifier: Apache-2.0
#include "duoka/tune/selection.h"

#include <algorithm>
#include <memory>
#include <regex>
#include <unordered_set>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/model/decoder.h"
#include "duoka/tune/lora.h"
#include "tune/module_names.h"

namespace duoka::tune {

bool matches_suffix(std::string_view module, std::string_view target) {
  if (!module.ends_with(target)) return false;
  return module.size() == target.size() || module[module.size() - target.size() - 1] == '.';
}

std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

std::optional<int64_t> layer_of(const std::string& name) {
  constexpr std::string_view prefix = "model.layers.";
  if (!name.starts_with(prefix)) return {};
  return std::stoll(name.substr(prefix.size()));
}

std::vector<std::string> modules_of(const model::ModelConfig& config) {
  std::vector<std::string> modules;
  for (const auto& [name, shape] : model::tensors_of(config)) {
    auto module = module_of(name);
    if (modules.empty() || modules.back() != module) modules.push_back(std::move(module));
  }
  return modules;
}

namespace {
bool is_regex(const std::string& target) {
  return target.find_first_of("*+?()[]{}|\\^$") != std::string::npos;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const size_t first = list.find_first_not_of(" \t", begin);
    if (first < end) parts.push_back(list.substr(first, list.find_last_not_of(" \t", end - 1) + 1 - first));
    begin = end + 1;
  }
  return parts;
}

// Each last part once: "q_proj, k_proj, …".
std::vector<std::string> short_names(const std::vector<std::string>& modules) {
  std::vector<std::string> names;
  for (const auto& module : modules)
    if (auto name = last_part(module); std::ranges::find(names, name) == names.end())
      names.push_back(std::move(name));
  return names;
}

[[noreturn]] void refuse_target(const char* key, const std::string& target,
                                const std::vector<std::string>& names) {
  const std::string near = nearest(target, names);
  throw ConfigError(text(key, ": \"", target, "\" is no module of this model; there are ", join(names),
                         near.empty() ? "" : "; did you mean " + near + "?"));
}

// First and one past the last block that trains.
std::pair<int64_t, int64_t> trained_layers(const model::ModelConfig& config,
                                           int64_t freeze_trainable_layers) {
  const int64_t n = freeze_trainable_layers, num_layers = config.num_layers;
  if (n > num_layers || n < -num_layers)
    throw ConfigError(text("freeze_trainable_layers = ", n, " but the model has ",
                           counted(num_layers, "layer"), "; wanted 0 (all), or a number between ",
                           -num_layers, " and ", num_layers));
  if (n == 0) return {0, num_layers};
  return n > 0 ? std::pair{num_layers - n, num_layers} : std::pair{int64_t{0}, -n};
}

std::vector<std::string> match_regex(const std::vector<std::string>& modules, const std::string& pattern) {
  try {
    const std::regex regex(pattern);
    std::vector<std::string> matches;
    std::ranges::copy_if(modules, std::back_inserter(matches),
                         [&](const std::string& module) { return std::regex_match(module, regex); });
    return matches;
  } catch (const std::regex_error& error) {
    throw ConfigError(text("lora_target: \"", pattern, "\" is no regular expression: ", error.what()));
  }
}

std::vector<std::string> match_list(const std::vector<std::string>& modules,
                                    const std::vector<std::string>& targets, const char* key) {
  for (const auto& target : targets)
    if (std::ranges::none_of(modules, [&](const auto& module) { return matches_suffix(module, target); }))
      refuse_target(key, target, short_names(modules));
  std::vector<std::string> matches;
  std::ranges::copy_if(modules, std::back_inserter(matches), [&](const auto& module) {
    return std::ranges::any_of(targets, [&](const auto& target) { return matches_suffix(module, target); });
  });
  return matches;
}

void select_adapted(const model::ModelConfig& config, const SelectionOptions& options, Selection& selection) {
  std::vector<std::string> linears;
  for (const auto& [name, shape] : model::linear_modules(config)) linears.push_back(name);
  if (options.lora_target == "all" || options.lora_target == "all-linear") {
    selection.target_modules = short_names(linears);
    selection.adapted_modules = linears;
  } else if (is_regex(options.lora_target)) {
    selection.target_regex = options.lora_target;
    selection.adapted_modules = match_regex(linears, options.lora_target);
  } else {
    selection.target_modules = split(options.lora_target);
    for (const auto& target : selection.target_modules)
      if (matches_suffix("lm_head", target) || matches_suffix("model.embed_tokens", target))
        throw ConfigError(text("lora_target: ", target,
                               " cannot carry an adapter; to train it whole, name it in ",
                               "additional_target"));
    selection.adapted_modules = match_list(linears, selection.target_modules, "lora_target");
  }
}

// Only some blocks: peft says it with layers_to_transform, which it does not take beside a regular
// expression.
void keep_layers(Selection& selection, std::pair<int64_t, int64_t> range) {
  std::erase_if(selection.adapted_modules, [&](const std::string& module) {
    const int64_t layer = layer_of(module).value_or(-1);
    return layer < range.first || layer >= range.second;
  });
  for (int64_t layer = range.first; layer < range.second; ++layer) selection.layers.push_back(layer);
  if (selection.target_regex.empty()) return;
  selection.target_regex.clear();
  selection.target_modules = selection.adapted_modules;
}

void select_saved(const model::ModelConfig& config, const SelectionOptions& options, Selection& selection) {
  for (const auto& target : options.additional_target)
    if (config.tie_word_embeddings && matches_suffix("lm_head", target))
      throw ConfigError(
          "additional_target: lm_head is tied to embed_tokens in this model; name embed_tokens");
  if (options.additional_target.empty()) return;
  selection.saved_modules = match_list(modules_of(config), options.additional_target, "additional_target");
  for (const auto& module : selection.saved_modules)
    if (std::ranges::find(selection.adapted_modules, module) != selection.adapted_modules.end())
      throw ConfigError(text(module, " is in lora_target and in additional_target; name it in one of them"));
}
}  // namespace

void select_parameters(const model::ModelConfig& config, Selection& selection) {
  const bool is_partial = selection.finetuning_type == FinetuningType::lora || !selection.layers.empty();
  const std::unordered_set<std::string> saved(selection.saved_modules.begin(), selection.saved_modules.end());
  for (const auto& [name, shape] : model::tensors_of(config)) {
    const bool is_in_layer = selection.finetuning_type == FinetuningType::full && layer_of(name) &&
                             std::ranges::find(selection.layers, *layer_of(name)) != selection.layers.end();
    if (!is_partial || is_in_layer || saved.contains(module_of(name)))
      selection.trainable_parameters.push_back(name);
  }
}

Selection select(const model::ModelConfig& config, const SelectionOptions& options) {
  Selection selection;
  selection.finetuning_type = options.finetuning_type;
  if (options.finetuning_type == FinetuningType::lora) select_adapted(config, options, selection);
  const auto range = trained_layers(config, options.freeze_trainable_layers);
  if (options.freeze_trainable_layers != 0) keep_layers(selection, range);
  select_saved(config, options, selection);
  select_parameters(config, selection);
  if (selection.adapted_modules.empty() && selection.trainable_parameters.empty())
    throw ConfigError(
        text("nothing would train: lora_target \"", options.lora_target, "\" matches no module"));
  return selection;
}

void apply_selection(model::Decoder& decoder, const Selection& selection, const LoraConfig& lora,
                     uint64_t seed) {
  const std::unordered_set<std::string> trained(selection.trainable_parameters.begin(),
                                                selection.trainable_parameters.end());
  decoder.set_trainable([&](const std::string& name) { return trained.contains(name); });
  for (const auto& module : selection.adapted_modules) {
    if (model::Linear* linear = decoder.find_linear(module))
      linear->attach(std::make_unique<LoraAdapter>(*linear, lora, seed));
  }
}

}  // namespace duoka::tune
