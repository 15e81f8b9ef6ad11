// SPDX-License-Identifier: Apache-2.0
#include "train/schedule_curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

// The order of operations is that of transformers' optimization.py, so that rates agree to the last bit or
// so.

namespace duoka::train {

namespace {

double ratio(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole));
}

/// From 0 at warmup_steps to 1 at total_steps.
double progress_after_warmup(const ScheduleOptions& o, int64_t step) {
  return ratio(step - o.warmup_steps, o.total_steps - o.warmup_steps);
}

double cosine_wave(double num_cycles, double progress) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * num_cycles * 2.0 * progress));
}

/// Linear warm-up in front of `after`.
template <Curve after>
double warmed_up(const ScheduleOptions& o, int64_t step) {
  return step < o.warmup_steps ? ratio(step, o.warmup_steps) : after(o, step);
}

double constant(const ScheduleOptions&, int64_t) { return 1; }

double linear(const ScheduleOptions& o, int64_t step) {
  return std::max(0.0, ratio(o.total_steps - step, o.total_steps - o.warmup_steps));
}

double cosine(const ScheduleOptions& o, int64_t step) {
  return std::max(0.0, cosine_wave(o.num_cycles, progress_after_warmup(o, step)));
}

double cosine_with_min_lr(const ScheduleOptions& o, int64_t step) {
  const double wave = cosine_wave(o.num_cycles, progress_after_warmup(o, step));
  return std::max(0.0, wave * (1 - o.min_lr_rate) + o.min_lr_rate);
}

double cosine_with_restarts(const ScheduleOptions& o, int64_t step) {
  const double progress = progress_after_warmup(o, step);
  if (progress >= 1) return 0;
  return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * std::fmod(o.num_cycles * progress, 1.0))));
}

double polynomial(const ScheduleOptions& o, int64_t step) {
  if (step > o.total_steps) return o.lr_end / o.learning_rate;
  const double remaining = 1 - progress_after_warmup(o, step);
  return ((o.learning_rate - o.lr_end) * std::pow(remaining, o.power) + o.lr_end) / o.learning_rate;
}

double inverse_sqrt(const ScheduleOptions& o, int64_t step) {
  const int64_t shift = o.timescale - o.warmup_steps;
  return 1.0 / std::sqrt(static_cast<double>(step + shift) / static_cast<double>(o.timescale));
}

/// A rise from 0 to 1; `shape` was checked.
double rise(std::string_view shape, double progress) {
  if (shape == "linear") return progress;
  if (shape == "cosine") return 0.5 * (1.0 - std::cos(std::numbers::pi * progress));
  return 1.0 - std::sqrt(1.0 - progress);
}

double fall(std::string_view shape, double num_cycles, double progress) {
  if (shape == "linear") return 1.0 - progress;
  if (shape == "cosine") return cosine_wave(num_cycles, progress);
  return 1.0 - std::sqrt(progress);
}

double warmup_stable_decay(const ScheduleOptions& o, int64_t step) {
  const auto lifted = [&](double factor) {
    return std::max(0.0, factor * (1.0 - o.min_lr_rate) + o.min_lr_rate);
  };
  const int64_t decay_begin = o.warmup_steps + o.num_stable_steps;
  if (step < o.warmup_steps) return lifted(rise(o.warmup_type, ratio(step, o.warmup_steps)));
  if (step < decay_begin) return 1;
  if (step < decay_begin + o.num_decay_steps)
    return lifted(fall(o.decay_type, o.num_cycles, ratio(step - decay_begin, o.num_decay_steps)));
  return o.min_lr_rate;
}

constexpr std::array curves{
    std::pair<const char*, Curve>{"constant", constant},
    std::pair<const char*, Curve>{"constant_with_warmup", warmed_up<constant>},
    std::pair<const char*, Curve>{"linear", warmed_up<linear>},
    std::pair<const char*, Curve>{"cosine", warmed_up<cosine>},
    std::pair<const char*, Curve>{"cosine_with_min_lr", warmed_up<cosine_with_min_lr>},
    std::pair<const char*, Curve>{"cosine_with_restarts", warmed_up<cosine_with_restarts>},
    std::pair<const char*, Curve>{"polynomial", warmed_up<polynomial>},
    std::pair<const char*, Curve>{"inverse_sqrt", warmed_up<inverse_sqrt>},
    std::pair<const char*, Curve>{"warmup_stable_decay", warmup_stable_decay},
};

}  // namespace

std::span<const std::pair<const char*, Curve>> schedule_curves() { return curves; }

}  // namespace duoka::train
