// SPDX-License-Identifier: Apache-2.0
#include "train/plateau.h"

#include <algorithm>
#include <limits>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::train {

namespace {

class Plateau final : public Schedule {
 public:
  explicit Plateau(const ScheduleOptions& options)
      : options_(options), rate_(options.learning_rate), best_(worst()) {}

  double learning_rate(int64_t /*step*/) const override { return rate_; }

  void observe(double metric) override {
    if (is_better(metric)) {
      best_ = metric;
      num_bad_ = 0;
    } else {
      ++num_bad_;
    }
    if (cooldown_left_ > 0) {
      --cooldown_left_;
      num_bad_ = 0;
    }
    if (num_bad_ > options_.patience) {
      const double lower = std::max(rate_ * options_.factor, options_.plateau_min_lr);
      if (rate_ - lower > options_.epsilon) rate_ = lower;
      cooldown_left_ = options_.cooldown;
      num_bad_ = 0;
    }
  }

  std::map<std::string, double> state() const override {
    std::map<std::string, double> state{{"base_rate", options_.learning_rate},
                                        {"rate", rate_},
                                        {"num_bad", static_cast<double>(num_bad_)},
                                        {"cooldown_left", static_cast<double>(cooldown_left_)}};
    if (best_ != worst()) state["best"] = best_;  // JSON has no infinity
    return state;
  }

  void load_state(const std::map<std::string, double>& state) override {
    if (state.empty())
      throw ConfigError(
          "the checkpoint was not made with lr_scheduler_type reduce_lr_on_plateau; resume with the schedule "
          "it was made with, or start a new run from its model");
    const double base = entry(state, "base_rate");
    rate_ = entry(state, "rate");
    if (base != options_.learning_rate && base != 0) rate_ *= options_.learning_rate / base;
    num_bad_ = static_cast<int64_t>(entry(state, "num_bad"));
    cooldown_left_ = static_cast<int64_t>(entry(state, "cooldown_left"));
    best_ = state.contains("best") ? state.at("best") : worst();
  }

 private:
  double worst() const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return options_.greater_is_better ? -infinity : infinity;
  }

  bool is_better(double metric) const {
    const double sign = options_.greater_is_better ? 1 : -1;
    if (options_.is_threshold_relative)
      return sign * metric > sign * (best_ * (1.0 + sign * options_.threshold));
    return sign * metric > sign * (best_ + sign * options_.threshold);
  }

  static double entry(const std::map<std::string, double>& state, const std::string& name) {
    const auto found = state.find(name);
    if (found == state.end())
      throw FormatError("the checkpoint's schedule state has no \"" + name + "\"; it was not written whole");
    return found->second;
  }

  ScheduleOptions options_;
  double rate_;
  double best_;
  int64_t num_bad_ = 0;
  int64_t cooldown_left_ = 0;
};

}  // namespace

std::unique_ptr<Schedule> make_plateau(const ScheduleOptions& options) {
  if (!(options.factor > 0 && options.factor < 1))
    throw ConfigError(
        text("factor of reduce_lr_on_plateau = ", options.factor, "; wanted above 0 and below 1"));
  if (options.patience < 0 || options.cooldown < 0)
    throw ConfigError(text("reduce_lr_on_plateau with patience ", options.patience, " and cooldown ",
                           options.cooldown, "; wanted 0 or more"));
  return std::make_unique<Plateau>(options);
}

}  // namespace duoka::train
