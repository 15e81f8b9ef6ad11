// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace duoka::train {

/// What a schedule is made from. Names and defaults are Hugging Face's (lr_scheduler_type, and the keys of
/// lr_scheduler_kwargs).
struct ScheduleOptions {
  std::string type = "linear";  ///< One of schedule_types().
  double learning_rate = 5e-5;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;  ///< Updates of the whole run; >= 1 where the type needs it.

  /// Waves (cosine, cosine_with_min_lr, warmup_stable_decay: 0.5) or restarts (1); -1: the type's default.
  double num_cycles = -1;
  double min_lr = -1;  ///< cosine_with_min_lr: the floor; give this or min_lr_rate.
  /// The floor as a share of learning_rate; also warmup_stable_decay's min_lr_ratio (there 0 when left out).
  double min_lr_rate = -1;
  double lr_end = 1e-7;           ///< polynomial: the last rate.
  double power = 1;               ///< polynomial: exponent.
  int64_t timescale = -1;         ///< inverse_sqrt: steps; -1: warmup_steps, or 10,000 without warm-up.
  int64_t num_decay_steps = -1;   ///< warmup_stable_decay: required.
  int64_t num_stable_steps = -1;  ///< warmup_stable_decay: -1: what warm-up and decay leave of total_steps.
  std::string warmup_type = "linear";  ///< warmup_stable_decay: linear, cosine, 1-sqrt.
  std::string decay_type = "cosine";   ///< warmup_stable_decay: the same.

  double factor = 0.1;    ///< reduce_lr_on_plateau, from here on; torch's ReduceLROnPlateau.
  int64_t patience = 10;  ///< Metrics without improvement that are accepted.
  double threshold = 1e-4;
  bool is_threshold_relative = true;
  int64_t cooldown = 0;
  double plateau_min_lr = 0;
  double epsilon = 1e-8;           ///< Smaller changes of the rate are not made.
  bool greater_is_better = false;  ///< Of the observed metric.
};

/// The learning rate of each update: the numbers of transformers' get_scheduler, multiplied out.
class Schedule {
 public:
  virtual ~Schedule() = default;

  /// Rate of update `step`, counted from 0. As in transformers, warm-up counts from 0: with warmup_steps > 0
  /// the first update has rate 0. A pure function of `step` but for reduce_lr_on_plateau.
  virtual double learning_rate(int64_t step) const = 0;

  /// Tells a metric measured now (an evaluation's loss). Only reduce_lr_on_plateau listens.
  virtual void observe(double /*metric*/) {}

  /// What observe() has left, to go into a checkpoint; empty when the schedule is a pure function.
  virtual std::map<std::string, double> state() const { return {}; }
  /// Takes back what state() gave. The rate scales with a learning_rate that was changed in between. Throws
  /// ConfigError when the state is another schedule's, FormatError when it is not complete.
  virtual void load_state(const std::map<std::string, double>& state);
};

/// Names make_schedule() knows.
const std::vector<std::string>& schedule_types();

/// Throws ConfigError naming the option: unknown type (with the nearest), a missing or contradictory number.
std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options);

/// Hugging Face's rule: `warmup_steps` from 1 on is a number of steps (cut to a whole one), below 1 a share
/// of total_steps, rounded up; when it is 0, `warmup_ratio` is that share.
/// Throws ConfigError when steps are negative or the ratio is not in [0, 1].
int64_t resolve_warmup_steps(double warmup_steps, double warmup_ratio, int64_t total_steps);

}  // namespace duoka::train
