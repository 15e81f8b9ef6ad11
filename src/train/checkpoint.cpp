// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <sstream>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "train/manifest.h"
#include "train/retention.h"
#include "train/run_state.h"
#include "train/shard_file.h"
#include "train/together.h"

namespace duoka::train {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view shard_prefix = "state-";

std::string shard_name(int rank, int num_ranks) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "state-%05d-of-%05d.safetensors", rank, num_ranks);
  return buffer;
}

/// The folder under way; on rank 0 only. A checkpoint of the same step stays until this one is complete.
class Draft {
 public:
  explicit Draft(const fs::path& final_path)
      : final_path_(final_path),
        is_replacing_(fs::exists(final_path)),
        folder_(is_replacing_ ? final_path.parent_path() / ("." + final_path.filename().string() + ".new")
                              : final_path) {}
  const fs::path& path() const { return folder_.path(); }
  void commit() {
    folder_.commit();
    if (is_replacing_) replace_folder(folder_.final_path(), final_path_);
  }

 private:
  fs::path final_path_;
  bool is_replacing_;
  AtomicDirectory folder_;
};

bool has_primary(std::span<const Slot> slots) {
  return std::any_of(slots.begin(), slots.end(), [](const Slot& slot) { return slot.is_primary; });
}

std::vector<fs::path> shard_paths(const fs::path& folder, const Manifest& manifest) {
  std::vector<fs::path> paths;
  for (const auto& [name, sum] : manifest)
    if (name.starts_with(shard_prefix) && name.ends_with(".safetensors")) paths.push_back(folder / name);
  return paths;
}

/// Everything some rank's slots hold, of `group`.
std::set<std::string> known_entries(std::span<const Slot> slots, const comm::Group& group) {
  std::ostringstream lines;
  for (const Slot& slot : slots)
    for (const std::string& name : entry_names(slot)) lines << name << '\n';
  std::set<std::string> known;
  for (const std::string& names : comm::all_gather_text(lines.str(), group)) {
    std::istringstream in(names);
    for (std::string line; std::getline(in, line);) known.insert(line);
  }
  return known;
}

void refuse_unknown(const fs::path& folder, const std::set<std::string>& saved,
                    const std::set<std::string>& known) {
  std::vector<std::string> unknown;
  std::set_difference(saved.begin(), saved.end(), known.begin(), known.end(), std::back_inserter(unknown));
  if (unknown.empty()) return;
  throw FormatError(
      text(folder.string(), " also holds ", unknown.front(),
           unknown.size() > 1 ? text(" and ", counted(static_cast<int64_t>(unknown.size()) - 1, "more entry"))
                              : "",
           ", which this run does not have; resume with the model, the optimizer and the selection of "
           "trained parameters it was made with"));
}

}  // namespace

fs::path save_checkpoint(const fs::path& output_dir, std::span<const Slot> slots, const RunState& state,
                         const comm::Group& group, const SaveOptions& options) {
  const fs::path final_path = output_dir / checkpoint_name(state.step);
  std::optional<Draft> draft;
  std::string draft_path;
  together(group, [&] {
    if (group.rank() != 0) return;
    draft.emplace(final_path);
    draft_path = draft->path().string();
  });
  comm::broadcast_text(draft_path, 0, group);

  together(group, [&] {
    if (has_primary(slots))
      write_shard(fs::path(draft_path) / shard_name(group.rank(), group.size()), slots,
                  options.log ? &*options.log : nullptr);
  });
  if (options.write_more) options.write_more(draft_path);
  together(group, [&] {
    if (group.rank() != 0) return;
    write_run_state(draft_path, state);
    write_manifest(draft_path);
    draft->commit();
    remove_old_checkpoints(output_dir, options.save_total_limit, state.step,
                           options.keep_best ? state.trainer.best_model_checkpoint : "");
  });
  return final_path;
}

RunState load_checkpoint(const fs::path& folder, std::span<Slot> slots, const comm::Group& group,
                         bool is_verified) {
  const auto known = known_entries(slots, group);
  RunState state;
  together(group, [&] {
    const Manifest manifest = read_manifest(folder);
    verify_manifest(folder, manifest, /*read_bytes=*/group.rank() == 0 && !is_verified);
    const ShardReader reader(folder, shard_paths(folder, manifest));
    refuse_unknown(folder, reader.entry_names(), known);
    visit_slots(slots, parallel::SlotUse::overwrite, [&](std::span<Slot> some) {
      for (Slot& slot : some) reader.read(slot);
    });
    state = read_run_state(folder);
  });
  return state;
}

RunState read_state(const fs::path& folder) {
  verify_manifest(folder, read_manifest(folder), /*read_bytes=*/false);
  return read_run_state(folder);
}

std::optional<fs::path> find_last_checkpoint(const fs::path& output_dir) {
  const auto all = list_checkpoints(output_dir);
  if (all.empty()) return std::nullopt;
  return all.back().second;
}

WholeCheckpoint find_last_whole_checkpoint(const fs::path& output_dir) {
  std::vector<fs::path> folders = earlier_checkpoints(output_dir);
  std::ranges::sort(folders, std::greater{}, checkpoint_step);
  WholeCheckpoint found;
  for (const fs::path& folder : folders) {
    try {
      verify_manifest(folder, read_manifest(folder), /*read_bytes=*/true);
      found.folder = folder;
      return found;
    } catch (const FormatError& error) {
      found.damaged.push_back({folder, error.what()});
    }
  }
  return found;
}

std::vector<std::string> differences(const std::map<std::string, std::string>& saved,
                                     const std::map<std::string, std::string>& now) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : saved) {
    const auto found = now.find(name);
    if (found == now.end())
      lines.push_back(text(name, ": ", value, " in the checkpoint, not set now"));
    else if (found->second != value)
      lines.push_back(text(name, ": ", value, " in the checkpoint, ", found->second, " now"));
  }
  for (const auto& [name, value] : now)
    if (!saved.contains(name)) lines.push_back(text(name, ": not in the checkpoint, ", value, " now"));
  return lines;
}

int64_t checkpoint_bytes(std::span<const Slot> slots) {
  int64_t bytes = 0;
  for (const Slot& slot : slots) {
    if (!slot.is_primary) continue;
    bytes += static_cast<int64_t>(slot.master.nbytes());
    for (const auto& [name, tensor] : slot.state) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

std::string check_output_dir(const fs::path& output_dir, int64_t bytes) {
  std::error_code error;
  fs::create_directories(output_dir, error);
  if (error || !fs::is_directory(output_dir))
    throw SystemError(text("cannot make output_dir ", output_dir.string(), ": ",
                           error ? error.message() : "a file of that name is there",
                           "; choose another output_dir"));
  if (!is_writable_dir(output_dir))
    throw SystemError(text("output_dir ", output_dir.string(),
                           " is not writable; choose another output_dir or change "
                           "its permissions"));
  const int64_t free = free_bytes(output_dir);
  if (bytes <= free) return "";
  return text("checkpoints will take ", bytes_text(bytes), ", but ", output_dir.string(), " has ",
              bytes_text(free), " free; set save_total_limit, or choose another output_dir");
}

}  // namespace duoka::train
