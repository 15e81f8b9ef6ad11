// SPDX-License-Identifier: Apache-2.0
#include "train/run_log.h"

#include <cmath>

#include <unistd.h>

#include "duoka/core/text.h"
#include "train/append_file.h"

namespace duoka::train {

namespace {
// Weight of the newest update in the running rate; the first update warms caches and is left out of it.
constexpr double rate_weight = 0.2;

void blend(double& average, double value) {
  average = average == 0 ? value : (1 - rate_weight) * average + rate_weight * value;
}
}  // namespace

RunLog::RunLog(const TrainerOptions& options, const Log& log, int64_t resume_step, TrainerState& state)
    : options_(options),
      log_(log),
      state_(state),
      bar_(log),
      row_ids_path_(options.output_dir / "row_ids.jsonl"),
      start_(Clock::now()),
      last_(start_) {
  if (log.rank() != 0) return;
  file_ = std::make_unique<TrainerLog>(options.output_dir, resume_step);
  if (options.log_row_ids) row_ids_ = open_lines_up_to(row_ids_path_, "step", resume_step);
  if (options.has_tensorboard) events_ = std::make_unique<EventFile>(options.output_dir / "runs");
}

RunLog::~RunLog() {
  if (row_ids_ >= 0) ::close(row_ids_);
}

void RunLog::rows(int64_t step, int64_t epoch, const std::vector<std::string>& of_ranks) {
  if (row_ids_ < 0) return;
  append(row_ids_,
         text("{\"step\": ", step, ", \"epoch\": ", epoch, ", \"ranks\": [", join(of_ranks), "]}\n"),
         row_ids_path_);
}

double RunLog::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void RunLog::pause() { last_ = Clock::now(); }

bool RunLog::is_logged(int64_t step) const {
  return step % options_.logging_steps == 0 || step == options_.total_steps ||
         (step == 1 && options_.logging_first_step);
}

StepReport RunLog::report(const Step& step) {
  const auto now = Clock::now();
  const double seconds_taken = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  blend(seconds_per_step_, seconds_taken);
  if (seconds_taken > 0) blend(tokens_per_second_, static_cast<double>(step.num_tokens) / seconds_taken);

  StepReport report;
  report.step = step.step;
  report.total_steps = options_.total_steps;
  report.epoch = step.epoch;
  report.loss = step.loss;
  report.learning_rate = step.learning_rate;
  report.grad_norm = step.grad_norm;
  report.tokens_per_second = tokens_per_second_;
  report.total_tokens = state_.num_input_tokens_seen;
  report.elapsed_seconds = seconds();
  report.seconds_per_step = seconds_per_step_;
  if (is_first_) seconds_per_step_ = tokens_per_second_ = 0;  // shown once, then left out of the average
  is_first_ = false;
  return report;
}

void RunLog::step(const Step& step) {
  num_tokens_ += step.num_tokens;
  state_.num_input_tokens_seen += step.num_tokens;
  loss_sum_ += step.loss;
  ++num_steps_;
  window_loss_ += step.loss;
  ++window_steps_;

  const StepReport latest = report(step);
  std::optional<StepReport> logged;
  if (is_logged(step.step)) {
    logged = latest;
    logged->loss = window_loss_ / static_cast<double>(window_steps_);
    window_loss_ = 0;
    window_steps_ = 0;
    state_.log_history.push_back(
        {step.step,
         step.epoch,
         {{"loss", logged->loss}, {"grad_norm", step.grad_norm}, {"learning_rate", step.learning_rate}}});
  }
  bar_.update(latest, logged);
  if (!logged || file_ == nullptr) return;
  file_->write(*logged);
  if (events_ == nullptr) return;
  events_->add_scalar("train/loss", logged->loss, step.step);
  events_->add_scalar("train/grad_norm", step.grad_norm, step.step);
  events_->add_scalar("train/learning_rate", step.learning_rate, step.step);
  events_->add_scalar("train/tokens_per_second", logged->tokens_per_second, step.step);
}

void RunLog::evaluation(int64_t step, double epoch, double eval_loss, double seconds_taken) {
  state_.log_history.push_back({step, epoch, {{"eval_loss", eval_loss}, {"eval_runtime", seconds_taken}}});
  log_.info(text("eval step=", step, " eval_loss=", eval_loss, " perplexity=", std::exp(eval_loss)));
  if (file_ == nullptr) return;
  StepReport report;
  report.step = step;
  report.total_steps = options_.total_steps;
  report.epoch = epoch;
  report.elapsed_seconds = seconds();
  report.seconds_per_step = seconds_per_step_;
  report.total_tokens = state_.num_input_tokens_seen;
  file_->write_evaluation(report, eval_loss);
  if (events_ != nullptr) events_->add_scalar("eval/loss", eval_loss, step);
}

}  // namespace duoka::train
