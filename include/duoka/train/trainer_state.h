// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace duoka::train {

/// One line of a run's history: a training log or an evaluation.
struct LogEntry {
  int64_t step = 0;
  double epoch = 0;
  std::vector<std::pair<std::string, double>>
      values;  ///< "loss", "learning_rate", "grad_norm", "eval_loss", …

  /// The value called `name`, if there.
  std::optional<double> find(const std::string& name) const;
};

/// trainer_state.json in Hugging Face's form, so that their tools (and load_best_model_at_end) read it.
struct TrainerState {
  int64_t global_step = 0;
  double epoch = 0;
  int64_t max_steps = 0;
  double num_train_epochs = 0;
  int64_t train_batch_size = 0;
  int64_t logging_steps = 0;
  int64_t eval_steps = 0;
  int64_t save_steps = 0;
  int64_t num_input_tokens_seen = 0;
  std::optional<double> best_metric;
  std::optional<int64_t> best_global_step;
  std::string best_model_checkpoint;  ///< Path of the folder; "" when none.
  std::vector<LogEntry> log_history;
};

/// Writes whole or not at all. Numbers that are not finite become null. Throws SystemError.
void write_trainer_state(const std::filesystem::path& path, const TrainerState& state);
/// Throws FormatError naming the file and what is wrong with it; SystemError when it cannot be read.
TrainerState read_trainer_state(const std::filesystem::path& path);

}  // namespace duoka::train
