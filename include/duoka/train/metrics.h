// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace duoka::train {

/// What is known after an update; the fields of a step's line, of trainer_log.jsonl and of the progress bar.
struct StepReport {
  int64_t step = 0;  ///< Updates made, from 1.
  int64_t total_steps = 0;
  double epoch = 0;
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;
  double tokens_per_second = 0;
  int64_t total_tokens = 0;
  double elapsed_seconds = 0;   ///< Of this process's training.
  double seconds_per_step = 0;  ///< Recent; the time left is this times the steps left.

  double remaining_seconds() const {
    return seconds_per_step * static_cast<double>(total_steps > step ? total_steps - step : 0);
  }
};

/// trainer_log.jsonl: one JSON object a line, LLaMA-Factory's keys (current_steps, total_steps, loss, lr,
/// epoch, percentage, elapsed_time, remaining_time) and grad_norm, tokens_per_second, total_tokens. Each line
/// is flushed.
class TrainerLog {
 public:
  /// Opens output_dir/trainer_log.jsonl. resume_step 0 starts it anew; else lines beyond that step, left by a
  /// run that died after its last checkpoint, are dropped and the file is continued.
  /// Throws SystemError with path and reason.
  TrainerLog(const std::filesystem::path& output_dir, int64_t resume_step);
  ~TrainerLog();
  TrainerLog(const TrainerLog&) = delete;
  TrainerLog& operator=(const TrainerLog&) = delete;

  void write(const StepReport& report);
  void write_evaluation(const StepReport& report, double eval_loss);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

using Results = std::vector<std::pair<std::string, double>>;

/// Writes `values` to output_dir/<split>_results.json and merges them into all_results.json, as Hugging
/// Face's save_metrics. split: "train", "eval". Whole or not at all. Throws SystemError.
void write_results(const std::filesystem::path& output_dir, const std::string& split, const Results& values);

/// Hugging Face's speed metrics: <split>_runtime, <split>_samples_per_second, <split>_steps_per_second.
Results speed_results(const std::string& split, double seconds, int64_t num_samples, int64_t num_steps);

}  // namespace duoka::train
