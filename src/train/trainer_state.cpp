// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/trainer_state.h"

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/io/json.h"

namespace duoka::train {

namespace {

using io::Json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json entry_to_json(const LogEntry& entry) {
  Json object{{"epoch", entry.epoch}};
  for (const auto& [name, value] : entry.values) object[name] = value;
  object["step"] = entry.step;
  return object;
}

LogEntry entry_from_json(const Json& object, const std::string& origin) {
  LogEntry entry;
  entry.step = io::require_int(object, "step", origin);
  entry.epoch = io::optional_number(object, "epoch", origin).value_or(0);
  for (const auto& [name, value] : object.items())
    if (value.is_number() && name != "step" && name != "epoch")
      entry.values.emplace_back(name, value.get<double>());
  return entry;
}

}  // namespace

std::optional<double> LogEntry::find(const std::string& name) const {
  for (const auto& [key, value] : values)
    if (key == name) return value;
  return std::nullopt;
}

void write_trainer_state(const std::filesystem::path& path, const TrainerState& state) {
  Json object{
      {"best_global_step", or_null(state.best_global_step)},
      {"best_metric", or_null(state.best_metric)},
      {"best_model_checkpoint",
       state.best_model_checkpoint.empty() ? Json() : Json(state.best_model_checkpoint)},
      {"epoch", state.epoch},
      {"eval_steps", state.eval_steps},
      {"global_step", state.global_step},
      {"is_hyper_param_search", false},
      {"is_local_process_zero", true},
      {"is_world_process_zero", true},
  };
  object["log_history"] = Json::array();
  for (const LogEntry& entry : state.log_history) object["log_history"].push_back(entry_to_json(entry));
  object["logging_steps"] = state.logging_steps;
  object["max_steps"] = state.max_steps;
  object["num_input_tokens_seen"] = state.num_input_tokens_seen;
  object["num_train_epochs"] = state.num_train_epochs;
  object["save_steps"] = state.save_steps;
  object["stateful_callbacks"] = Json::object();
  object["total_flos"] = 0.0;
  object["train_batch_size"] = state.train_batch_size;
  object["trial_name"] = nullptr;
  object["trial_params"] = nullptr;
  write_file_atomically(path, object.dump(2) + "\n");
}

TrainerState read_trainer_state(const std::filesystem::path& path) {
  const Json object = io::read_json_file(path);
  const std::string origin = path.string();
  TrainerState state;
  state.global_step = io::require_int(object, "global_step", origin);
  state.epoch = io::optional_number(object, "epoch", origin).value_or(0);
  state.max_steps = io::optional_int(object, "max_steps", origin).value_or(0);
  state.num_train_epochs = io::optional_number(object, "num_train_epochs", origin).value_or(0);
  state.train_batch_size = io::optional_int(object, "train_batch_size", origin).value_or(0);
  // Hugging Face writes shares of a run (0.1) here too; they are not needed to go on.
  state.logging_steps =
      static_cast<int64_t>(io::optional_number(object, "logging_steps", origin).value_or(0));
  state.eval_steps = static_cast<int64_t>(io::optional_number(object, "eval_steps", origin).value_or(0));
  state.save_steps = static_cast<int64_t>(io::optional_number(object, "save_steps", origin).value_or(0));
  state.num_input_tokens_seen = io::optional_int(object, "num_input_tokens_seen", origin).value_or(0);
  state.best_metric = io::optional_number(object, "best_metric", origin);
  state.best_global_step = io::optional_int(object, "best_global_step", origin);
  state.best_model_checkpoint = io::optional_string(object, "best_model_checkpoint", origin).value_or("");
  if (const Json* history = io::optional_array(object, "log_history", origin))
    for (const Json& entry : *history) state.log_history.push_back(entry_from_json(entry, origin));
  return state;
}

}  // namespace duoka::train
