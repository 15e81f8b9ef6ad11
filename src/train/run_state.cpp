// SPDX-License-Identifier: Apache-2.0
#include "train/run_state.h"

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/io/json.h"

namespace duoka::train {

namespace {

constexpr const char* run_state_name = "run_state.json";
constexpr const char* trainer_state_name = "trainer_state.json";

int64_t require_count(const io::Json& object, const char* key, const std::string& origin) {
  const int64_t value = io::require_int(object, key, origin);
  if (value < 0) throw FormatError(text(origin, ": \"", key, "\" is ", value, "; wanted 0 or more"));
  return value;
}

}  // namespace

void write_run_state(const std::filesystem::path& folder, const RunState& state) {
  io::Json object{{"step", state.step},
                  {"epoch", state.epoch},
                  {"rows_in_epoch", state.rows_in_epoch},
                  {"tokens_seen", state.tokens_seen},
                  {"seed", std::to_string(state.seed)},  // text: JSON numbers end at 2^53 for many readers
                  {"optimizer", state.optimizer}};
  object["schedule_state"] = io::Json::object();
  for (const auto& [name, value] : state.schedule_state) object["schedule_state"][name] = value;
  object["settings"] = io::Json::object();
  for (const auto& [name, value] : state.settings) object["settings"][name] = value;
  write_file_atomically(folder / run_state_name, object.dump(2) + "\n");
  write_trainer_state(folder / trainer_state_name, state.trainer);
}

RunState read_run_state(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / run_state_name;
  const std::string origin = path.string();
  const io::Json object = io::read_json_file(path);
  RunState state;
  state.step = require_count(object, "step", origin);
  state.epoch = require_count(object, "epoch", origin);
  state.rows_in_epoch = require_count(object, "rows_in_epoch", origin);
  state.tokens_seen = require_count(object, "tokens_seen", origin);
  const std::string seed = io::require_string(object, "seed", origin);
  if (seed.empty() || seed.size() > 19 || seed.find_first_not_of("0123456789") != std::string::npos)
    throw FormatError(origin + ": \"seed\" is \"" + seed + "\"; wanted a whole number as text");
  state.seed = std::stoull(seed);
  state.optimizer = io::require_string(object, "optimizer", origin);
  const io::Json& schedule = io::require_object(object, "schedule_state", origin);
  for (const auto& [name, value] : schedule.items())
    state.schedule_state[name] = io::require_number(schedule, name, origin);
  const io::Json& settings = io::require_object(object, "settings", origin);
  for (const auto& [name, value] : settings.items())
    state.settings[name] = io::require_string(settings, name, origin);
  state.trainer = read_trainer_state(folder / trainer_state_name);
  return state;
}

}  // namespace duoka::train
