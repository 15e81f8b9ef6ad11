// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iomanip>
#include <memory>
#include <sstream>

#include "cli/data_files.h"
#include "cli/model_files.h"
#include "cli/output_folder.h"
#include "cli/ranks.h"
#include "cli/same_start.h"
#include "cli/training_setup.h"
#include "duoka/cli/command.h"
#include "duoka/cli/train_arguments.h"
#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/parallel/assemble.h"
#include "duoka/train/checkpoint.h"

namespace duoka::cli {

namespace {

/// What can be checked with files closed and no rank started. `spread`: over the ranks that will run.
void check_early(const TrainArguments& arguments, const parallel::Plan& spread) {
  check_model_path(arguments.model_name_or_path, "model_name_or_path");
  find_data(arguments);
  check_output_folder(arguments);
  check_resume(arguments);
  const model::ModelConfig config = model::read_config(arguments.model_name_or_path);
  plan_tuning(arguments, config);
  model::check_tensor_parallel(config, arguments.tensor_parallel_size);
  model::check_context_parallel(config, arguments.context_parallel_size, arguments.cutoff_len);
  if (spread.pipeline > 1) parallel::layers_of_stages(spread, parallel::stack_of(config));
}

void warn_start(const TrainArguments& arguments, const TuningPlan& plan, const parallel::Plan& spread,
                const Log& log) {
  if (log.rank() != 0) return;
  if (!arguments.ignored_keys.empty())
    log.warning("these keys change nothing here: " + join(arguments.ignored_keys));
  if (plan.adapter)
    if (const auto warning = tune::other_base_warning(*plan.adapter, arguments.model_name_or_path);
        !warning.empty())
      log.warning(warning);
  for (const std::string& idle : options_without_effect(arguments, spread)) log.warning(idle);
  for (const std::string& advice : layout_advice(arguments, spread)) log.warning(advice);
}

/// The options that differ from the defaults, a line each.
std::string changed_options(const TrainArguments& arguments) {
  std::istringstream lines(train_options().print(arguments, true));
  std::string out = "options (others as by default)";
  for (std::string line; std::getline(lines, line);) out += "\n  " + line;
  return out;
}

std::string trained_text(int64_t num_trained, int64_t num_parameters) {
  std::ostringstream out;
  out << counted(num_trained, "parameter") << " (" << std::fixed << std::setprecision(2)
      << 100.0 * static_cast<double>(num_trained) / static_cast<double>(num_parameters) << " %)";
  return out.str();
}

/// Over `num_ranks` ranks that each have rows of their own.
int64_t rows_per_update(const TrainArguments& a, int num_ranks) {
  return a.per_device_train_batch_size * a.gradient_accumulation_steps * num_ranks;
}

/// "8 rows (8 per card x 1 accumulated x 1 card)".
std::string update_text(const TrainArguments& a, int num_ranks) {
  return text(counted(rows_per_update(a, num_ranks), a.packing ? "stream" : "row"), " (",
              a.per_device_train_batch_size, " per card x ", a.gradient_accumulation_steps, " accumulated x ",
              counted(num_ranks, "card"), ")");
}

/// "optimizer, activations, to a file in out"; "" when nothing goes out of a card's memory.
std::string offload_text(const TrainArguments& a, at::Device device) {
  std::vector<std::string> what;
  if (a.offload_optimizer) what.emplace_back("optimizer");
  if (a.offload_activations) what.emplace_back("activations");
  if (what.empty()) return "";
  return join(what) + (device.is_cpu() ? ", to a file in " + offload_folder(a) : ", to host memory");
}

/// The first lines of a run: what trains on what, and which options differ from the defaults.
void say_start(const TrainArguments& arguments, const model::Decoder& decoder, parallel::Engine& engine,
               const TrainData& data, int64_t total_steps, const RankContext& context) {
  const auto groups = train::count_decay_groups(decoder.parameters(), engine.layout().pipeline_group());
  const int64_t trained = groups.elements_decayed + groups.elements_not_decayed;
  const int64_t all = model::num_parameters(decoder.config());
  const int num_ranks = context.group.size();
  std::string wires = num_ranks > 1 ? text(", over ", context.group.transport()) : "";
  const std::string spread = parallel::describe(engine.layout().plan());
  if (spread != text("data ", num_ranks) && num_ranks > 1) wires += "; " + spread;
  const auto row = [&](std::string_view label, const std::string& value) {
    context.log.info(text("  ", label, std::string(12 - label.size(), ' '), value));
  };
  context.log.info(changed_options(arguments));
  context.log.info("run");
  row("model", text(decoder.config().family, ", ", count_text(all), " parameters, computing in ",
                    arguments.bf16 ? "bf16" : "f32"));
  row("trained", text(trained_text(trained, all), "; weight decay on ", counted(groups.num_decayed, "tensor"),
                      ", none on ", groups.num_not_decayed));
  row("ranks", text(num_ranks, " on ", context.device.is_cuda() ? "GPU" : "CPU", wires));
  if (const std::string offloaded = offload_text(arguments, context.device); !offloaded.empty())
    row("offloaded", offloaded);
  row("data", text(counted(data.train.size(), "row"), " to train on, ",
                   data.eval ? count_text(data.eval->size()) : "none", " to evaluate on"));
  row("updates",
      text(count_text(total_steps), ", each of ", update_text(arguments, engine.layout().data_share().size)));
}

/// Options that ask for something which this run is too short for.
void warn_intervals(const train::TrainerOptions& options, const Log& log) {
  if (log.rank() != 0) return;  // once for all ranks
  using Unit = train::Interval::Unit;
  if (options.eval.unit == Unit::steps && options.eval.every > options.total_steps)
    log.warning(text("eval_steps: ", options.eval.every, " is more than the ",
                     counted(options.total_steps, "update"),
                     " of this run; it is evaluated once, at the end"));
  if (options.save.unit == Unit::steps && options.save.every > options.total_steps)
    log.warning(text("save_steps: ", options.save.every, " is more than the ",
                     counted(options.total_steps, "update"),
                     " of this run; one checkpoint is written, at the end"));
}

/// A trace that begins when all is done.
void warn_trace(const train::TrainerOptions& options, const train::RunState& from, const Log& log) {
  const int64_t left = options.total_steps - from.step;
  if (log.rank() == 0 && options.profiler_steps > 0 && options.profiler_steps_start >= left)
    log.warning(text("profiler_steps_start: ", options.profiler_steps_start, " leaves none of the ",
                     counted(left, "update"), " of this run; there will be no trace.json"));
}

/// What trains well but not as it was meant.
void warn_limits(const TrainArguments& arguments, const model::ModelConfig& config, const data::RowSet& rows,
                 int64_t total_steps, const Log& log) {
  if (log.rank() != 0) return;
  if (arguments.lr_scheduler_type != "constant" && arguments.warmup_steps >= total_steps)
    log.warning(text("warmup_steps: ", arguments.warmup_steps, " leaves none of the ",
                     counted(total_steps, "update"), " of this run; the rate never reaches learning_rate"));
  // Millions of rows are looked at only where one of them may be too long.
  if (std::min(rows.dataset().counts().longest, arguments.cutoff_len) <= config.max_positions) return;
  int64_t longest = 0;
  for (int64_t i = 0; i < rows.size(); ++i) longest = std::max<int64_t>(longest, rows.length(i).num_tokens);
  if (longest > config.max_positions)
    log.warning(text("rows have up to ", counted(longest, "token"), ", but the model was made for ",
                     config.max_positions, " (max_position_embeddings); set cutoff_len"));
}

/// Checkpoints of later updates than the one that was named: of a course that this run does not follow.
void warn_left_course(const TrainArguments& arguments, const std::filesystem::path& taken,
                      const train::RunState& from, const Log& log) {
  if (log.rank() != 0) return;
  for (const auto& folder : train::earlier_checkpoints(arguments.output_dir))
    if (train::checkpoint_step(folder) > from.step)
      log.warning(
          text(folder.string(),
               " is later than where this run goes on from; resume_from_checkpoint=true would take it "
               "until this run is past it. Remove it if it is of no use. Going on from ",
               taken.string()));
}

/// The folder for results, empty of an earlier run where the user said so, and closed to others. Rank 0 acts,
/// all wait.
std::unique_ptr<OutputLock> prepare_output(const TrainArguments& arguments, parallel::Engine& engine,
                                           const RankContext& context) {
  std::unique_ptr<OutputLock> lock;
  if (context.log.rank() == 0) {
    const std::string warning =
        train::check_output_dir(arguments.output_dir, train::checkpoint_bytes(engine.slots()));
    if (!warning.empty()) context.log.warning(warning);
    lock = std::make_unique<OutputLock>(arguments.output_dir);
    remove_leftovers(arguments.output_dir);
    if (arguments.overwrite_output_dir && arguments.resume_from_checkpoint.empty())
      remove_earlier_run(arguments.output_dir);
  }
  comm::barrier(context.group);
  return lock;
}

void say_end(const TrainArguments& arguments, const train::TrainSummary& summary, const Log& log) {
  log.status("");  // the bar has said all it can
  const std::string earlier = summary.new_steps < summary.steps ? text(", up to ", summary.steps, ",") : "";
  if (summary.new_steps == 0)
    log.info(text("nothing was left to train: the checkpoint is at update ", summary.steps,
                  " already; for more, raise max_steps or num_train_epochs"));
  else
    log.info(text("trained ", counted(summary.new_steps, "update"), earlier, " in ",
                  duration_text(summary.seconds), ", ", static_cast<int64_t>(summary.tokens_per_second),
                  " tokens/s, mean loss ", summary.train_loss));
  if (summary.eval_loss) log.info(text("evaluation loss ", *summary.eval_loss));
  const bool is_adapter = arguments.finetuning_type == "lora";
  log.info(text(is_adapter ? "adapter in " : "model in ", arguments.output_dir));
  if (is_adapter && model::is_gguf(arguments.model_name_or_path))
    log.info(text(
        "for peft the base must be a folder: `duoka export model_name_or_path=", arguments.model_name_or_path,
        " export_dir=FOLDER`, and FOLDER as base_model_name_or_path in adapter_config.json"));
}

int train_on(const TrainArguments& arguments, const parallel::Plan& spread, RankContext& context) {
  const Log& log = context.log;
  require_same_start(arguments, context.group);  // first: ranks with other options make other groups
  const model::ModelConfig config = model::read_config(arguments.model_name_or_path);
  const TuningPlan plan = plan_tuning(arguments, config);
  warn_start(arguments, plan, spread, log);
  LazyEncoder encoder(arguments);
  const TrainData data = open_data(arguments, find_data(arguments), encoder, log);
  require_same_data(data, context.group);
  // Written with each checkpoint of a whole model, whatever becomes of the base's folder until then.
  if (log.rank() == 0 && plan.selection.finetuning_type != tune::FinetuningType::lora) encoder.tokenizer();

  parallel::Layout layout(spread, context.group);
  layout.share_layers(parallel::stack_of(config));
  const auto seed = static_cast<uint64_t>(arguments.seed);
  const auto keep = [&](Parameter& parameter) {
    // Weights that an adapter brings with it are put in place of whole ones.
    if (!plan.adapter || !plan.adapter->saved_weights.contains(parameter.name)) layout.keep(parameter);
  };
  const model::LoadOptions load_options{.dtype = arguments.bf16 ? at::kBFloat16 : at::kFloat,
                                        .device = context.device,
                                        .log = log,
                                        .tensor_axis = layout.tensor_axis(),
                                        .context_axis = layout.context_axis(),
                                        .layers = layout.layers(),
                                        .on_parameter = keep};
  model::Decoder decoder = model::Decoder::load(arguments.model_name_or_path, load_options);
  apply_tuning(decoder, plan, seed);
  const auto engine = parallel::assemble(decoder.chain(), layout, engine_options(arguments));

  const int num_ranks = context.group.size();
  const auto share = layout.data_share();
  data::LoaderOptions loading{train_packing(arguments, share.size), share.rank, share.size, context.device};
  data::Loader loader(data.train, loading);
  std::unique_ptr<data::Loader> eval_loader;
  if (data.eval && arguments.eval_strategy != "no") {
    loading.pack = eval_packing(arguments, share.size);
    eval_loader = std::make_unique<data::Loader>(*data.eval, loading);
  }

  const auto checkpoint = checkpoint_to_resume(arguments, context);
  const train::RunState from = checkpoint ? train::read_state(checkpoint->folder) : train::RunState{};
  const int64_t total_steps =
      train::total_updates(loader, arguments.num_train_epochs, arguments.max_steps, from);
  const auto optimizer = make_optimizer(arguments);
  const auto schedule = make_schedule(arguments, total_steps);
  train::TrainerOptions options = trainer_options(arguments, total_steps, eval_loader != nullptr);
  options.settings["cards"] = std::to_string(num_ranks);
  options.settings["rows"] = std::to_string(data.train.size());
  options.settings["rows_per_update"] =
      std::to_string(rows_per_update(arguments, engine->layout().data_share().size));
  say_start(arguments, decoder, *engine, data, total_steps, context);
  warn_intervals(options, log);
  warn_trace(options, from, log);
  warn_limits(arguments, config, data.train, total_steps, log);
  if (checkpoint && arguments.resume_from_checkpoint != "true")
    warn_left_course(arguments, checkpoint->folder, from, log);
  const auto lock = prepare_output(arguments, *engine, context);

  const auto write = [&](const std::filesystem::path& folder) {
    engine->with_whole_parameters([&](const parallel::WholeParameter& whole) {
      write_tuned(folder, decoder, plan, arguments, encoder, whole, log);
    });
  };
  train::Trainer trainer({*engine, *optimizer, *schedule, loader, eval_loader.get(), log, write}, options);
  if (checkpoint) trainer.resume(checkpoint->folder, checkpoint->is_verified);
  const train::TrainSummary summary = trainer.run();
  if (summary.stop_signal != 0) {
    log.info(text("stopped by signal ", summary.stop_signal, " after update ", summary.steps,
                  "; go on with resume_from_checkpoint=true"));
    return 128 + summary.stop_signal;
  }
  write(arguments.output_dir);
  say_end(arguments, summary, log);
  return 0;
}

int run(const CommandLine& line) {
  const TrainArguments arguments = read_train_arguments(OptionWords::parse(line.words));
  const parallel::Plan spread = parallel::resolve(parallel_plan(arguments), count_ranks(line));
  check_early(arguments, spread);
  return run_on_ranks(line, arguments.ddp_timeout,
                      [&](RankContext& context) { return train_on(arguments, spread, context); });
}

}  // namespace

const Command train_command{
    "train",
    "Fine-tune a model on one or many cards.",
    "[CONFIG.yaml] [key=value …] [--cards N] [--pin]",
    run,
    [](int columns) { return train_options().help(columns); },
    [] { return train_options().json_schema("duoka train"); },
    [] { return train_options().markdown(); },
    rank_flags(),
};

}  // namespace duoka::cli
