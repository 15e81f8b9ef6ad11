// SPDX-License-Identifier: Apache-2.0
#include "cli/output_folder.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/train/checkpoint.h"

namespace duoka::cli {

namespace fs = std::filesystem;

namespace {

/// What a run writes into output_dir beside checkpoints, event files and weights.
constexpr std::array<std::string_view, 13> run_files{
    "trainer_log.jsonl",    "trace.json",       "trainer_state.json", "train_results.json",
    "eval_results.json",    "all_results.json", "training_loss.svg",  "row_ids.jsonl",
    "adapter_config.json",  "config.json",      "tokenizer.json",     "generation_config.json",
    "tokenizer_config.json"};

bool is_weights(const std::string& name) {
  return name == "adapter_model.safetensors" || name == "model.safetensors.index.json" ||
         (name.starts_with("model") && name.ends_with(".safetensors"));
}

bool is_of_a_run(const fs::path& path) {
  std::error_code error;
  const std::string name = path.filename().string();
  return name == "trainer_log.jsonl" || (name.starts_with("checkpoint-") && fs::is_directory(path, error));
}

bool is_run_file(const std::string& name) {
  return is_weights(name) || name.starts_with("trace-rank-") ||
         std::find(run_files.begin(), run_files.end(), name) != run_files.end();
}

/// `word` without `end`; nothing when it ends otherwise.
std::optional<std::string> without_end(const std::string& word, std::string_view end) {
  if (!word.ends_with(end)) return std::nullopt;
  return word.substr(0, word.size() - end.size());
}

/// A hidden file or folder of ours that no run which is alive would leave: half a file or checkpoint, or one
/// on its way out. What replaces or was replaced counts only while the checkpoint itself is there.
bool is_leftover(const fs::path& path) {
  const std::string hidden = path.filename().string();
  if (!hidden.starts_with(".")) return false;
  const std::string name = hidden.substr(std::min(hidden.find_first_not_of('.'), hidden.size()));
  if (const auto removed = without_end(name, ".removed")) return train::checkpoint_step(*removed).has_value();
  if (const auto half = without_end(name, ".partial"))
    return train::checkpoint_step(*half) || train::checkpoint_step(half->substr(0, half->rfind(".new"))) ||
           is_run_file(half->substr(0, half->rfind('.')));
  for (const char* end : {".new", ".replaced"})
    if (const auto other = without_end(name, end))
      return train::checkpoint_step(*other) && fs::exists(path.parent_path() / *other);
  return false;
}

/// The entries of `folder`; none when it is no folder.
std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, error)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

/// The system's own check comes with the first file; this one comes before minutes of loading.
void check_can_be_made(const std::string& key, const fs::path& folder) {
  std::error_code error;
  fs::path there = fs::absolute(folder).lexically_normal();
  fs::file_status status = fs::status(there, error);
  while (status.type() == fs::file_type::not_found && there != there.parent_path()) {
    there = there.parent_path();
    status = fs::status(there, error);
  }
  std::string reason;
  if (status.type() == fs::file_type::none)
    reason = error.message();
  else if (status.type() != fs::file_type::directory)
    reason = there.string() + " is a file";
  else if (::access(there.c_str(), W_OK | X_OK) != 0)
    reason = text(there.string(), " is not writable (", std::generic_category().message(errno), ")");
  if (!reason.empty())
    throw SystemError(
        text("cannot make ", key, " ", folder.string(), ": ", reason, "; choose another ", key));
}

void check_folder(const std::string& key, const std::string& folder) {
  if (folder.starts_with("~"))
    throw ConfigError(text(key, ": found '", folder, "'; '~' is not expanded here, write the path out"));
  check_can_be_made(key, folder);
}

/// `path` is `folder` or lies in a checkpoint of it.
bool would_be_destroyed(const std::string& path, const fs::path& folder) {
  std::error_code error;
  if (path.empty()) return false;
  if (fs::equivalent(path, folder, error)) return true;
  const auto checkpoints = train::earlier_checkpoints(folder);
  return std::any_of(checkpoints.begin(), checkpoints.end(),
                     [&](const fs::path& one) { return fs::equivalent(path, one, error); });
}

void check_inputs_survive(const TrainArguments& arguments) {
  for (const auto& [key, path] : {std::pair{"model_name_or_path", arguments.model_name_or_path},
                                  std::pair{"adapter_name_or_path", arguments.adapter_name_or_path}})
    if (would_be_destroyed(path, arguments.output_dir))
      throw ConfigError(text("output_dir: ", arguments.output_dir, " holds ", key, " (", path,
                             "), which this run would overwrite; choose another output_dir"));
}

}  // namespace

void check_output_folder(const TrainArguments& arguments) {
  const std::string& folder = arguments.output_dir;
  check_folder("output_dir", folder);
  if (!arguments.offload_folder.empty()) check_folder("offload_folder", arguments.offload_folder);
  check_inputs_survive(arguments);
  const auto found = entries(folder);
  const auto of_a_run = std::find_if(found.begin(), found.end(), is_of_a_run);
  if (of_a_run == found.end()) {
    for (const fs::path& path : found)
      if (is_weights(path.filename().string()))
        throw ConfigError(text("output_dir: ", folder, " holds weights (", path.filename().string(),
                               ") that no run left there; choose another output_dir"));
  } else if (!arguments.overwrite_output_dir && arguments.resume_from_checkpoint.empty()) {
    throw ConfigError(text(
        "output_dir: ", folder, " holds an earlier run (", of_a_run->filename().string(),
        "); set resume_from_checkpoint: true to go on with it, overwrite_output_dir: true to start anew, or "
        "another output_dir"));
  }
}

OutputLock::OutputLock(const fs::path& output_dir)
    : fd_(::open(output_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(fd_);
  throw ConfigError(text("output_dir: another run is writing into ", output_dir.string(),
                         "; wait for its end, or choose another output_dir"));
}

OutputLock::~OutputLock() {
  if (fd_ >= 0) ::close(fd_);
}

void remove_leftovers(const fs::path& output_dir) {
  for (const fs::path& path : entries(output_dir)) {
    std::error_code ignored;  // what cannot be removed only takes space
    if (is_leftover(path)) fs::remove_all(path, ignored);
  }
}

void remove_earlier_run(const fs::path& output_dir) {
  std::vector<fs::path> old = train::earlier_checkpoints(output_dir);
  for (const fs::path& path : entries(output_dir))
    if (is_run_file(path.filename().string())) old.push_back(path);
  for (const fs::path& path : entries(output_dir / "runs"))
    if (path.extension() == ".duoka") old.push_back(path);
  for (const fs::path& path : old) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error)
      throw SystemError(text("overwrite_output_dir: cannot remove ", path.string(), ": ", error.message()));
  }
}

}  // namespace duoka::cli
