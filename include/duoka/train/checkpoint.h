// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "duoka/core/log.h"
#include "duoka/parallel/slot.h"
#include "duoka/train/trainer_state.h"

namespace duoka::comm {
class Group;
}

namespace duoka::train {

using parallel::Slot;

/// Everything but tensors that a run needs to go on as if it had not stopped. Same on every rank.
struct RunState {
  int64_t step = 0;           ///< Updates made.
  int64_t epoch = 0;          ///< Data position: epoch under way, from 0,
  int64_t rows_in_epoch = 0;  ///< and rows of it already trained on: updates may change their size.
  int64_t tokens_seen = 0;
  uint64_t seed = 0;      ///< All randomness is a function of seed and position.
  std::string optimizer;  ///< "adamw" …; a checkpoint of another is refused by its state names.
  std::map<std::string, double> schedule_state;  ///< Schedule::state().
  /// Settings that decide how the run goes on (learning_rate, batch, data, …), as text; see differences().
  std::map<std::string, std::string> settings;
  TrainerState trainer;
};

struct SaveOptions {
  /// Checkpoints to keep, this one included; 0 keeps all. As in Hugging Face, a kept best counts, but the
  /// newest is always kept too.
  int64_t save_total_limit = 0;
  bool keep_best = false;  ///< Do not remove trainer.best_model_checkpoint (load_best_model_at_end).
  /// Shows progress when writing takes more than a second.
  std::optional<Log> log = std::nullopt;
  /// Called on every rank with the unfinished folder, for rank 0 to add files to (adapter, tokenizer) with
  /// the others' help. May throw, then on all ranks.
  std::function<void(const std::filesystem::path& folder)> write_more = nullptr;
};

/// Writes output_dir/checkpoint-<step>, whole or not at all (one of that name is replaced when the new one is
/// complete); then removes older ones beyond the limit.
/// Collective over `group`. Each rank writes its primary slots into one safetensors file; rank 0 adds the
/// JSON files and a manifest of checksums and gives the folder its name after all are done. output_dir is
/// the same folder on all ranks that hold primary slots. Returns the folder.
/// When any rank fails, all throw (the culprit its own error, the others SystemError naming its rank), and
/// the folders that were there before are untouched. Form: docs/checkpoint.md.
std::filesystem::path save_checkpoint(const std::filesystem::path& output_dir, std::span<const Slot> slots,
                                      const RunState& state, const comm::Group& group,
                                      const SaveOptions& options = {});

/// Fills masters and states of `slots` from `folder`, whatever the number of ranks and the layout it was
/// written at; the caller then publishes. Collective over `group`; reads only what the slots need; rank 0
/// checks the checksums of all files first, unless `is_verified`: somebody has.
/// Throws FormatError when a file is missing or changed, a tensor is not covered whole, has another shape,
/// or the checkpoint holds parameters or states that no rank's slots know.
RunState load_checkpoint(const std::filesystem::path& folder, std::span<Slot> slots, const comm::Group& group,
                         bool is_verified = false);

/// What load_checkpoint returns, without a look at tensors or checksums. Every rank may call it alone. Throws
/// FormatError for what is no complete checkpoint.
RunState read_state(const std::filesystem::path& folder);

/// The complete checkpoint with the highest step, ignoring unfinished and damaged folders (no manifest, a
/// file missing or of another size). Empty when there is none.
std::optional<std::filesystem::path> find_last_checkpoint(const std::filesystem::path& output_dir);

struct WholeCheckpoint {
  std::optional<std::filesystem::path> folder;  ///< None: there is no whole one.
  struct Damage {
    std::filesystem::path folder;
    std::string reason;
  };
  std::vector<Damage> damaged;  ///< By falling step.
};
/// The checkpoint with the highest step whose files have the checksums they were written with, and what is
/// wrong with each later one. Reads all of these files.
WholeCheckpoint find_last_whole_checkpoint(const std::filesystem::path& output_dir);

/// Every checkpoint in `output_dir` that save_checkpoint made, damaged ones too: the folders
/// checkpoint-<step> with a manifest. Empty when there is no such folder.
std::vector<std::filesystem::path> earlier_checkpoints(const std::filesystem::path& output_dir);

/// The folders checkpoint-<step> in `output_dir` without a manifest: no checkpoints that save_checkpoint
/// made, or no longer.
std::vector<std::filesystem::path> folders_without_manifest(const std::filesystem::path& output_dir);

/// The step in the name of a checkpoint's folder; none when it is no such name.
std::optional<int64_t> checkpoint_step(const std::filesystem::path& folder);

/// Settings that differ between the checkpoint and now: "learning_rate: 0.01 in the checkpoint, 0.02 now".
/// The settings of now win; the caller tells the user.
std::vector<std::string> differences(const std::map<std::string, std::string>& saved,
                                     const std::map<std::string, std::string>& now);

/// Bytes the tensors of one checkpoint take on disk, all primary slots of this rank.
int64_t checkpoint_bytes(std::span<const Slot> slots);

/// Makes `output_dir` and proves that a file can be written there; call before the first step.
/// Throws SystemError with path and reason. Returns a warning when `bytes` are more than the free space, else
/// "".
std::string check_output_dir(const std::filesystem::path& output_dir, int64_t bytes);

}  // namespace duoka::train
