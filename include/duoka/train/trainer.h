// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "duoka/core/log.h"
#include "duoka/data/loader.h"
#include "duoka/parallel/engine.h"
#include "duoka/train/checkpoint.h"
#include "duoka/train/optimizer.h"
#include "duoka/train/schedule.h"

namespace duoka::train {

/// When something is done that is done every so often.
struct Interval {
  enum class Unit { never, steps, epochs };
  Unit unit = Unit::never;
  int64_t every = 1;  ///< Updates, for Unit::steps.

  /// Whether it is due after update `step` (from 1), which ends an epoch or not.
  bool is_due(int64_t step, bool ends_epoch) const {
    return unit == Unit::epochs ? ends_epoch : unit == Unit::steps && step % every == 0;
  }
};

struct TrainerOptions {
  std::filesystem::path output_dir;
  int64_t total_steps = 0;      ///< Updates of the whole run; see total_updates().
  double num_train_epochs = 0;  ///< For trainer_state.json only.
  int64_t train_batch_size = 0;
  uint64_t seed = 0;
  double max_grad_norm = 1;  ///< 0: no clipping.
  int64_t logging_steps = 10;
  bool logging_first_step = false;
  Interval eval;
  bool eval_on_start = false;
  Interval save;
  int64_t save_total_limit = 0;  ///< 0: all are kept.
  bool load_best_model_at_end = false;
  int64_t early_stopping_patience = 0;  ///< 0: never.
  bool plot_loss = true;
  bool has_tensorboard = true;
  bool log_row_ids = false;
  /// So many updates are traced into output_dir/trace.json, when this process has made profiler_steps_start
  /// others; 0: none.
  int64_t profiler_steps = 0;
  int64_t profiler_steps_start = 0;
  std::string optimizer_name;
  std::map<std::string, std::string> settings;  ///< What a checkpoint remembers; see differences().
};

/// What a trainer works with; all outlive it.
struct TrainerParts {
  parallel::Engine& engine;
  const Optimizer& optimizer;
  Schedule& schedule;
  data::Loader& train;
  data::Loader* eval = nullptr;  ///< Null: nothing is evaluated.
  Log log;
  /// Every rank: writes the model or adapter as it is now, in Hugging Face's form, into a folder. Collective
  /// over the engine's group.
  std::function<void(const std::filesystem::path&)> write_model;
};

struct TrainSummary {
  int64_t steps = 0;      ///< Updates made in all, earlier runs of this training included.
  int64_t new_steps = 0;  ///< Updates made by this process; loss, time and speed are theirs.
  double train_loss = 0;
  std::optional<double> eval_loss;       ///< Of the last evaluation.
  std::optional<double> best_eval_loss;  ///< And its checkpoint, where there is one.
  std::string best_checkpoint;
  double seconds = 0;
  double tokens_per_second = 0;
  /// The signal that stopped the run early, after a checkpoint was written; 0: it ended by itself.
  int stop_signal = 0;
};

/// Updates that `num_epochs` passes take, a last part of an epoch rounded up; `max_steps` when that is above
/// 0. A run that goes on counts those it has made, whatever their size was, and what is left to do.
int64_t total_updates(data::Loader& loader, double num_epochs, int64_t max_steps, const RunState& from = {});

/// The training loop: updates, evaluations, checkpoints, logs. One object a run. Knows no layout: it sees an
/// engine, its slots, and the loader of this rank.
class Trainer {
 public:
  /// Prepares the optimizer's state. Throws what TrainerOptions that contradict each other deserve
  /// (ConfigError).
  Trainer(TrainerParts parts, TrainerOptions options);
  ~Trainer();

  /// Goes on from a checkpoint: the next run() gives the bits of a run that never stopped. Collective.
  /// `is_verified`: its checksums were looked at already.
  void resume(const std::filesystem::path& checkpoint, bool is_verified = false);

  /// Runs to total_steps and returns; writes into output_dir (rank 0): checkpoint-N/, trainer_log.jsonl,
  /// trainer_state.json, train_results.json, eval_results.json, training_loss.svg, TensorBoard events,
  /// trace.json. The final model is the caller's to write. Collective over the engine's group.
  ///
  /// SIGINT and SIGTERM to any rank end the run after the update under way, on all ranks, with a checkpoint.
  /// Throws what loader, engine, optimizer and files throw; ConfigError when loss or gradient is not finite.
  TrainSummary run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace duoka::train
