// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "duoka/core/log.h"
#include "duoka/train/metrics.h"
#include "duoka/train/progress_bar.h"
#include "duoka/train/tensorboard.h"
#include "duoka/train/trainer.h"
#include "duoka/train/trainer_state.h"

namespace duoka::train {

/// All that a run says, in its places: terminal, trainer_log.jsonl, TensorBoard, the history of
/// trainer_state.json. Every rank has one and calls it alike; only rank 0's writes.
class RunLog {
 public:
  /// `resume_step`: updates made before this process. `history` outlives this.
  RunLog(const TrainerOptions& options, const Log& log, int64_t resume_step, TrainerState& state);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// One update: `loss`, `norm`, `learning_rate`, and `num_tokens` over all ranks.
  struct Step {
    int64_t step = 0;
    double epoch = 0;
    double loss = 0;
    double grad_norm = 0;
    double learning_rate = 0;
    int64_t num_tokens = 0;
  };
  void step(const Step& step);
  void evaluation(int64_t step, double epoch, double eval_loss, double seconds);
  /// What goes on until the next step(), for who looks at a terminal; "": no more of it.
  void note(const std::string& what) { bar_.note(what); }
  /// Time until the next step() is not the run's speed (evaluating, saving).
  void pause();

  /// With log_row_ids: the rows of an update, a list for each rank.
  void rows(int64_t step, int64_t epoch, const std::vector<std::string>& of_ranks);
  /// Since this object was made.
  double seconds() const;
  int64_t num_tokens() const { return num_tokens_; }
  /// Updates this process made.
  int64_t num_steps() const { return num_steps_; }
  /// Mean of the losses of all updates this process made.
  double mean_loss() const { return num_steps_ > 0 ? loss_sum_ / static_cast<double>(num_steps_) : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  StepReport report(const Step& step);
  bool is_logged(int64_t step) const;

  const TrainerOptions& options_;
  Log log_;
  TrainerState& state_;
  std::unique_ptr<TrainerLog> file_;
  std::unique_ptr<EventFile> events_;
  ProgressBar bar_;
  std::filesystem::path row_ids_path_;
  int row_ids_ = -1;  // a file descriptor, with log_row_ids
  Clock::time_point start_, last_;
  double seconds_per_step_ = 0;
  double tokens_per_second_ = 0;
  int64_t num_tokens_ = 0;
  int64_t num_steps_ = 0;
  double loss_sum_ = 0;
  double window_loss_ = 0;  // since the last logged step
  int64_t window_steps_ = 0;
  bool is_first_ = true;
};

}  // namespace duoka::train
