// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include <ATen/ops/tensor.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/parallel/layout.h"
#include "duoka/train/gradients.h"
#include "duoka/train/loss_plot.h"
#include "duoka/train/stop_signal.h"
#include "parallel/trace.h"
#include "train/run_log.h"

namespace duoka::train {

int64_t total_updates(data::Loader& loader, double num_epochs, int64_t max_steps, const RunState& from) {
  if (max_steps > 0) return max_steps;
  const auto whole = static_cast<int64_t>(num_epochs);
  const double rest = num_epochs - static_cast<double>(whole);
  int64_t total = from.step;
  for (int64_t epoch = from.epoch; epoch < whole || (epoch == whole && rest > 0); ++epoch) {
    int64_t wanted = loader.num_updates(epoch);
    if (epoch == whole) wanted = static_cast<int64_t>(std::ceil(rest * static_cast<double>(wanted)));
    const int64_t made = epoch == from.epoch ? loader.plan(epoch)->update_after(from.rows_in_epoch) : 0;
    total += std::max<int64_t>(0, wanted - made);
  }
  return total;
}

class Trainer::Impl {
 public:
  Impl(TrainerParts parts, TrainerOptions options) : parts_(std::move(parts)), options_(std::move(options)) {
    if (options_.total_steps < 1) throw ConfigError("nothing to train: the run would have 0 updates");
    parts_.optimizer.prepare(parts_.engine.slots());
    run_.seed = options_.seed;
    run_.optimizer = options_.optimizer_name;
    run_.settings = options_.settings;
  }

  void resume(const std::filesystem::path& checkpoint, bool is_verified) {
    RunState saved = load_checkpoint(checkpoint, parts_.engine.slots(), parts_.engine.group(), is_verified);
    parts_.engine.publish();
    for (const std::string& difference : differences(saved.settings, options_.settings))
      if (parts_.log.rank() == 0) parts_.log.warning(text("resuming with another setting: ", difference));
    parts_.schedule.load_state(saved.schedule_state);
    saved.settings = options_.settings;
    run_ = std::move(saved);
    for (const LogEntry& entry : run_.trainer.log_history)
      if (entry.find("eval_loss") && entry.step > run_.trainer.best_global_step.value_or(0))
        ++evaluations_without_progress_;
    parts_.log.info(text("resumed from ", checkpoint.string(), " after step ", run_.step));
  }

  TrainSummary run();

 private:
  struct Position {
    int64_t epoch;
    int64_t index;
    int64_t updates;  // of this epoch
  };

  /// Where the data goes on.
  Position position();
  data::Update next_rows(const Position& at);
  RunLog::Step update(const Position& at);
  /// Begins or ends the trace before an update; `made`: those that this process has made.
  void trace(int64_t made);
  void end_trace();
  /// Adds up over the ranks: tokens of the update, and whether a rank was told to stop.
  int64_t agree(int64_t num_tokens);
  void evaluate();
  void after_evaluation(double loss);
  void save();
  void finish(const RunLog& log, TrainSummary& summary);
  void fill_trainer_state();
  void log_rows(const data::Update& update);
  bool is_main() const { return parts_.log.rank() == 0; }

  TrainerParts parts_;
  TrainerOptions options_;
  RunState run_;
  std::unique_ptr<RunLog> log_;
  StopSignal* stop_ = nullptr;
  int stop_signal_ = 0;
  std::optional<double> last_eval_loss_;
  int64_t evaluations_without_progress_ = 0;
  int64_t last_evaluated_ = -1;
  int64_t last_saved_ = -1;
  bool is_tracing_ = false;
};

int64_t Trainer::Impl::agree(int64_t num_tokens) {
  at::Tensor tally =
      at::tensor({static_cast<double>(num_tokens), static_cast<double>(stop_->received())}, at::kDouble);
  // Signals go to every rank, but not at the same update: the larger number decides for all.
  at::Tensor signal = tally.slice(0, 1, 2).clone();
  at::Tensor tokens = tally.slice(0, 0, 1).clone();
  comm::all_reduce(tokens, comm::Op::sum, parts_.engine.group());
  comm::all_reduce(signal, comm::Op::max, parts_.engine.group());
  stop_signal_ = static_cast<int>(signal.item<double>());
  return static_cast<int64_t>(tokens.item<double>());
}

void Trainer::Impl::log_rows(const data::Update& update) {
  if (!options_.log_row_ids) return;
  std::vector<std::string> ids;
  for (const int64_t id : update.row_ids) ids.push_back(std::to_string(id));
  const bool speaks = parts_.engine.layout().data_share().is_first;
  auto of_ranks = comm::all_gather_text(speaks ? "[" + join(ids) + "]" : "", parts_.engine.group());
  std::erase(of_ranks, "");
  log_->rows(run_.step + 1, update.epoch, of_ranks);
}

Trainer::Impl::Position Trainer::Impl::position() {
  const auto plan = parts_.train.plan(run_.epoch);
  const Position at{run_.epoch, plan->update_after(run_.rows_in_epoch), plan->num_updates()};
  const int64_t num_twice = std::min(run_.rows_in_epoch, plan->num_rows()) - plan->rows_before(at.index);
  if (num_twice > 0 && is_main())
    parts_.log.warning(
        text("updates have another size than in the checkpoint, which ends within one of now: ",
             counted(num_twice, "row"), " of epoch ", run_.epoch, num_twice == 1 ? " is" : " are",
             " trained on twice"));
  return at;
}

data::Update Trainer::Impl::next_rows(const Position& at) {
  const parallel::TraceSpan span(parts_.engine.trace(), "wait for rows");
  return parts_.train.get(at.epoch, at.index);
}

RunLog::Step Trainer::Impl::update(const Position& at) {
  parallel::TraceFile* const trace = parts_.engine.trace();
  const data::Update update = next_rows(at);
  log_rows(update);
  const ExactSum loss_sum = parts_.engine.forward_backward(update.streams, update.num_trained);
  parts_.engine.finish_gradients();
  const LossAndNorm total =
      sum_loss_and_norm(loss_sum, update.num_trained, parts_.engine.slots(), parts_.engine.group());
  require_finite(total, run_.step + 1);
  clip_gradients(parts_.engine.slots(), total.norm, options_.max_grad_norm);
  const double rate = parts_.schedule.learning_rate(run_.step);
  {
    const parallel::TraceSpan span(trace, "optimizer step");
    parts_.optimizer.step(parts_.engine.slots(), rate);
    parts_.engine.publish();
  }

  int64_t num_tokens = 0;
  for (const Stream& stream : update.streams) num_tokens += stream.num_tokens();
  num_tokens = agree(parts_.engine.layout().data_share().is_first ? num_tokens : 0);

  ++run_.step;
  run_.tokens_seen += num_tokens;
  run_.epoch = at.epoch;
  const auto plan = parts_.train.plan(at.epoch);
  run_.rows_in_epoch = plan->rows_before(at.index + 1);
  // By rows: the last update of an epoch may have fewer.
  const double epoch = static_cast<double>(at.epoch) +
                       static_cast<double>(run_.rows_in_epoch) / static_cast<double>(plan->num_rows());
  run_.trainer.epoch = epoch;
  return {run_.step, epoch, total.loss, total.norm, rate, num_tokens};
}

void Trainer::Impl::trace(int64_t made) {
  if (options_.profiler_steps == 0) return;
  const int64_t end = options_.profiler_steps_start + options_.profiler_steps;
  if (made == end) end_trace();
  if (made != options_.profiler_steps_start) return;
  parts_.engine.start_trace(options_.output_dir, run_.step + 1);
  is_tracing_ = true;
}

void Trainer::Impl::end_trace() {
  if (!std::exchange(is_tracing_, false)) return;
  const std::string failure = parts_.engine.stop_trace();
  if (!is_main()) return;
  if (!failure.empty()) parts_.log.warning(failure);
  parts_.log.info(text("trace in ", (options_.output_dir / "trace.json").string(), ", for ui.perfetto.dev"));
}

void Trainer::Impl::evaluate() {
  if (parts_.eval == nullptr || last_evaluated_ == run_.step) return;
  const auto start = std::chrono::steady_clock::now();
  parallel::LossSums sums;
  const int64_t updates = parts_.eval->num_updates(0);
  for (int64_t i = 0; i < updates; ++i) {
    log_->note(text("evaluating ", i + 1, "/", updates));
    data::Update batch = parts_.eval->get(0, i);
    for (Stream& stream : batch.streams) stream.is_training = false;
    sums += parts_.engine.evaluate(batch.streams);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  last_evaluated_ = run_.step;
  log_->note("");
  log_->evaluation(run_.step, run_.trainer.epoch, sums.mean(), seconds);
  after_evaluation(sums.mean());
}

void Trainer::Impl::after_evaluation(double loss) {
  last_eval_loss_ = loss;
  if (run_.step == 0) return;  // before training: nothing to keep or to judge
  parts_.schedule.observe(loss);
  const bool is_best = !run_.trainer.best_metric || loss < *run_.trainer.best_metric;
  evaluations_without_progress_ = is_best ? 0 : evaluations_without_progress_ + 1;
  if (!is_best) return;
  run_.trainer.best_metric = loss;
  run_.trainer.best_global_step = run_.step;
  // The best is worth a checkpoint whatever save_steps says: it could not be loaded at the end otherwise.
  if (options_.load_best_model_at_end) {
    run_.trainer.best_model_checkpoint = (options_.output_dir / text("checkpoint-", run_.step)).string();
    save();
  }
}

void Trainer::Impl::fill_trainer_state() {
  TrainerState& state = run_.trainer;
  state.global_step = run_.step;
  state.max_steps = options_.total_steps;
  state.num_train_epochs = options_.num_train_epochs;
  state.train_batch_size = options_.train_batch_size;
  state.logging_steps = options_.logging_steps;
  state.eval_steps = options_.eval.every;
  state.save_steps = options_.save.every;
}

void Trainer::Impl::save() {
  if (last_saved_ == run_.step) return;
  fill_trainer_state();
  run_.schedule_state = parts_.schedule.state();
  SaveOptions save_options;
  save_options.save_total_limit = options_.save_total_limit;
  save_options.keep_best = options_.load_best_model_at_end;
  save_options.log = parts_.log;
  save_options.write_more = parts_.write_model;
  const auto folder =
      save_checkpoint(options_.output_dir, parts_.engine.slots(), run_, parts_.engine.group(), save_options);
  last_saved_ = run_.step;
  parts_.log.info(text("saved ", folder.string()));
}

void Trainer::Impl::finish(const RunLog& log, TrainSummary& summary) {
  summary.steps = run_.step;
  summary.new_steps = log.num_steps();
  summary.train_loss = log.mean_loss();
  summary.seconds = log.seconds();
  summary.tokens_per_second =
      summary.seconds > 0 ? static_cast<double>(log.num_tokens()) / summary.seconds : 0;
  summary.eval_loss = last_eval_loss_;
  summary.best_eval_loss = run_.trainer.best_metric;
  summary.best_checkpoint = run_.trainer.best_model_checkpoint;
  summary.stop_signal = stop_signal_;
  if (!is_main()) return;
  fill_trainer_state();
  write_trainer_state(options_.output_dir / "trainer_state.json", run_.trainer);
  if (summary.new_steps > 0)  // else those of the run that made the checkpoint stay
    write_results(options_.output_dir, "train",
                  {{"epoch", run_.trainer.epoch},
                   {"total_steps", static_cast<double>(run_.step)},
                   {"num_input_tokens_seen", static_cast<double>(run_.tokens_seen)},
                   {"train_loss", summary.train_loss},
                   {"train_runtime", summary.seconds},
                   {"train_tokens_per_second", summary.tokens_per_second}});
  if (summary.eval_loss)
    write_results(options_.output_dir, "eval",
                  {{"epoch", run_.trainer.epoch},
                   {"eval_loss", *summary.eval_loss},
                   {"perplexity", std::exp(*summary.eval_loss)}});
  if (options_.plot_loss)
    write_loss_plot(
        options_.output_dir / "training_loss.svg",
        loss_curves(run_.trainer.log_history, "training loss of " + options_.output_dir.string()));
}

TrainSummary Trainer::Impl::run() {
  StopSignal stop;
  stop_ = &stop;
  log_ = std::make_unique<RunLog>(options_, parts_.log, run_.step, run_.trainer);
  last_saved_ = run_.step;
  if (options_.eval_on_start && run_.step == 0) evaluate();

  Position at = position();
  if (run_.step < options_.total_steps)
    log_->note(text(run_.step, "/", options_.total_steps, " in the first update"));
  const int64_t made_before = run_.step;
  bool is_stopped = false;
  while (run_.step < options_.total_steps && !is_stopped) {
    if (at.index == at.updates) at = {at.epoch + 1, 0, parts_.train.num_updates(at.epoch + 1)};
    trace(run_.step - made_before);
    log_->pause();
    log_->step(update(at));
    ++at.index;
    const bool ends_epoch = at.index == at.updates;
    if (options_.eval.is_due(run_.step, ends_epoch)) evaluate();
    if (options_.save.is_due(run_.step, ends_epoch)) save();
    is_stopped = stop_signal_ != 0 || (options_.early_stopping_patience > 0 &&
                                       evaluations_without_progress_ >= options_.early_stopping_patience);
  }
  end_trace();
  if (stop_signal_ == 0) {
    if (options_.eval.unit != Interval::Unit::never) evaluate();
    if (evaluations_without_progress_ > 0 && options_.early_stopping_patience > 0 && is_stopped)
      parts_.log.info(text("stopped early: ", counted(evaluations_without_progress_, "evaluation"),
                           " without a lower loss"));
  }
  if (options_.save.unit != Interval::Unit::never || stop_signal_ != 0) save();
  if (stop_signal_ == 0 && options_.load_best_model_at_end && !run_.trainer.best_model_checkpoint.empty() &&
      run_.trainer.best_global_step != run_.step) {
    load_checkpoint(run_.trainer.best_model_checkpoint, parts_.engine.slots(), parts_.engine.group());
    parts_.engine.publish();
    parts_.log.info(text("loaded the best checkpoint, ", run_.trainer.best_model_checkpoint));
  }
  TrainSummary summary;
  finish(*log_, summary);
  stop_ = nullptr;
  return summary;
}

Trainer::Trainer(TrainerParts parts, TrainerOptions options)
    : impl_(std::make_unique<Impl>(std::move(parts), std::move(options))) {}
Trainer::~Trainer() = default;
void Trainer::resume(const std::filesystem::path& checkpoint, bool is_verified) {
  impl_->resume(checkpoint, is_verified);
}
TrainSummary Trainer::run() { return impl_->run(); }

}  // namespace duoka::train
