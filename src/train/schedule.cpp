// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/schedule.h"

#include <cmath>
#include <utility>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "train/plateau.h"
#include "train/schedule_curves.h"

namespace duoka::train {

namespace {

/// A rate that is learning_rate times a factor of the step alone.
class CurveSchedule final : public Schedule {
 public:
  CurveSchedule(ScheduleOptions options, Curve curve) : options_(std::move(options)), curve_(curve) {}
  double learning_rate(int64_t step) const override {
    return options_.learning_rate * curve_(options_, step);
  }

 private:
  ScheduleOptions options_;
  Curve curve_;
};

void require(bool is_right, const std::string& found, const std::string& wanted) {
  if (!is_right) throw ConfigError(found + "; wanted " + wanted);
}

void check_common(const ScheduleOptions& o) {
  require(std::isfinite(o.learning_rate) && o.learning_rate >= 0, text("learning_rate = ", o.learning_rate),
          "a number, 0 or more");
  require(o.warmup_steps >= 0, text("warmup_steps = ", o.warmup_steps), "0 or more");
}

/// Fills what the type leaves to defaults; checks what it needs.
ScheduleOptions completed(ScheduleOptions o) {
  const bool is_wsd = o.type == "warmup_stable_decay";
  const bool needs_total = o.type == "linear" || o.type.starts_with("cosine") || o.type == "polynomial" ||
                           (is_wsd && o.num_stable_steps < 0);
  require(!needs_total || o.total_steps >= 1,
          text("total_steps = ", o.total_steps, " for lr_scheduler_type ", o.type), "at least 1");
  if (o.num_cycles < 0) o.num_cycles = o.type == "cosine_with_restarts" ? 1 : 0.5;
  if (o.type == "cosine_with_min_lr") {
    require((o.min_lr < 0) != (o.min_lr_rate < 0),
            text("lr_scheduler_type cosine_with_min_lr with min_lr ", o.min_lr < 0 ? "not given" : "given",
                 " and min_lr_rate ", o.min_lr_rate < 0 ? "not given" : "given"),
            "exactly one of them in lr_scheduler_kwargs");
    require(o.min_lr < 0 || o.learning_rate > 0, "min_lr with learning_rate = 0", "a learning_rate above 0");
    if (o.min_lr >= 0) o.min_lr_rate = o.min_lr / o.learning_rate;
  }
  if (o.type == "polynomial")
    require(o.learning_rate > o.lr_end, text("lr_end = ", o.lr_end),
            text("less than learning_rate = ", o.learning_rate));
  if (o.timescale <= 0) o.timescale = o.warmup_steps > 0 ? o.warmup_steps : 10'000;
  if (is_wsd) {
    require(o.num_decay_steps >= 0, "lr_scheduler_type warmup_stable_decay without num_decay_steps",
            "it in lr_scheduler_kwargs, 0 or more");
    for (const auto& [key, shape] :
         {std::pair{"warmup_type", o.warmup_type}, std::pair{"decay_type", o.decay_type}})
      require(shape == "linear" || shape == "cosine" || shape == "1-sqrt", text(key, " = ", shape),
              "linear, cosine or 1-sqrt");
    if (o.num_stable_steps < 0) {
      o.num_stable_steps = o.total_steps - o.warmup_steps - o.num_decay_steps;
      require(o.num_stable_steps >= 0,
              text("warmup_steps = ", o.warmup_steps, " and num_decay_steps = ", o.num_decay_steps),
              text("together at most the ", o.total_steps, " updates of the run"));
    }
    if (o.min_lr_rate < 0) o.min_lr_rate = 0;
  }
  return o;
}

[[noreturn]] void unknown_type(const std::string& type) {
  const std::string near = nearest(type, schedule_types());
  throw ConfigError(text("lr_scheduler_type = ", type, " is not known; ",
                         near.empty() ? "" : text("did you mean ", near, "? "), "There are ",
                         join(schedule_types())));
}

}  // namespace

void Schedule::load_state(const std::map<std::string, double>& state) {
  if (!state.empty())
    throw ConfigError(
        "the checkpoint holds the state of lr_scheduler_type reduce_lr_on_plateau, which this run does not "
        "use; "
        "resume with it, or start a new run from the checkpoint's model");
}

const std::vector<std::string>& schedule_types() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, curve] : schedule_curves()) all.push_back(name);
    all.emplace_back(plateau_type);
    return all;
  }();
  return names;
}

std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options) {
  check_common(options);
  if (options.type == plateau_type) return make_plateau(options);
  for (const auto& [name, curve] : schedule_curves())
    if (options.type == name) return std::make_unique<CurveSchedule>(completed(options), curve);
  unknown_type(options.type);
}

int64_t resolve_warmup_steps(double warmup_steps, double warmup_ratio, int64_t total_steps) {
  require(warmup_steps >= 0 && std::isfinite(warmup_steps), text("warmup_steps = ", warmup_steps),
          "0 or more");
  require(warmup_ratio >= 0 && warmup_ratio <= 1, text("warmup_ratio = ", warmup_ratio),
          "a share from 0 to 1");
  if (warmup_steps >= 1) return static_cast<int64_t>(warmup_steps);
  const double share = warmup_steps > 0 ? warmup_steps : warmup_ratio;
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * share));
}

}  // namespace duoka::train
