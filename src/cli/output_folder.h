// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "duoka/cli/train_arguments.h"

namespace duoka::cli {

/// Refuses, before anything is loaded or written, an output_dir that cannot be made, or that holds what this
/// run would destroy: the model or adapter it starts from, weights that no run left there, or an earlier run
/// that is neither to be resumed nor overwritten; and an offload_folder that cannot be made. Throws ConfigError, or SystemError for what the system
/// says.
void check_output_folder(const TrainArguments& arguments);

/// Keeps a second run out of `output_dir` while it lives: two would write into one another's checkpoints. The
/// system gives the folder free when the process ends, however it ends. Where a file system has no locks,
/// this does nothing.
class OutputLock final {
 public:
  /// Throws ConfigError when another run holds the folder. The folder exists.
  explicit OutputLock(const std::filesystem::path& output_dir);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

 private:
  int fd_;
};

/// Removes the hidden halves of files and checkpoints that a run which was killed left in `output_dir`. Only
/// under the lock: they could be another run's work.
void remove_leftovers(const std::filesystem::path& output_dir);

/// Removes what an earlier run left in `output_dir`: its checkpoints, logs and results. Files of other names
/// stay.
void remove_earlier_run(const std::filesystem::path& output_dir);

}  // namespace duoka::cli
