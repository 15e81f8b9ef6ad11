// SPDX-License-Identifier: Apache-2.0
#include "cli/training_setup.h"

#include <charconv>
#include <cmath>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/model/export.h"
#include "duoka/train/checkpoint.h"

namespace duoka::cli {

namespace fs = std::filesystem;

namespace {

tune::SelectionOptions selection_options(const TrainArguments& arguments) {
  tune::SelectionOptions options;
  options.finetuning_type =
      arguments.finetuning_type == "lora" ? tune::FinetuningType::lora : tune::FinetuningType::full;
  options.lora_target = join(arguments.lora_target, ",");
  options.additional_target = arguments.additional_target;
  options.freeze_trainable_layers =
      arguments.finetuning_type == "freeze" ? arguments.freeze_trainable_layers : 0;
  return options;
}

/// The options under which an adapter that exists was made, so that it is written back as it came.
tune::SelectionOptions selection_options(const tune::PeftConfig& config) {
  tune::SelectionOptions options;
  options.lora_target = config.target_regex.empty() ? join(config.target_modules, ",") : config.target_regex;
  options.additional_target = config.modules_to_save;
  return options;
}

train::Interval interval(const std::string& strategy, int64_t steps) {
  using Unit = train::Interval::Unit;
  if (strategy == "epoch") return {Unit::epochs, 1};
  return {strategy == "no" ? Unit::never : Unit::steps, steps};
}

/// Options that decide how a run goes on; a checkpoint remembers them.
constexpr const char* remembered[] = {"model_name_or_path",
                                      "finetuning_type",
                                      "lora_rank",
                                      "lora_alpha",
                                      "lora_dropout",
                                      "lora_target",
                                      "use_rslora",
                                      "stage",
                                      "dataset",
                                      "cutoff_len",
                                      "max_samples",
                                      "val_size",
                                      "packing",
                                      "train_on_prompt",
                                      "mask_history",
                                      "disable_shuffling",
                                      "per_device_train_batch_size",
                                      "seed",
                                      "data_seed",
                                      "optim",
                                      "learning_rate",
                                      "weight_decay",
                                      "adam_beta1",
                                      "adam_beta2",
                                      "adam_epsilon",
                                      "sgd_momentum",
                                      "max_grad_norm",
                                      "lr_scheduler_type",
                                      "warmup_ratio",
                                      "warmup_steps",
                                      "bf16"};

}  // namespace

TuningPlan plan_tuning(const TrainArguments& arguments, const model::ModelConfig& config) {
  TuningPlan plan;
  if (!arguments.adapter_name_or_path.empty()) {
    plan.adapter = tune::read_peft_adapter(arguments.adapter_name_or_path, config);
    plan.lora = plan.adapter->config.lora;
    plan.selection = tune::select(config, selection_options(plan.adapter->config));
    return plan;
  }
  plan.lora.rank = arguments.lora_rank;
  plan.lora.alpha = arguments.lora_alpha.value_or(2 * static_cast<double>(arguments.lora_rank));
  plan.lora.dropout = arguments.lora_dropout;
  plan.lora.use_rslora = arguments.use_rslora;
  plan.selection = tune::select(config, selection_options(arguments));
  return plan;
}

void apply_tuning(model::Decoder& decoder, const TuningPlan& plan, uint64_t seed) {
  if (plan.adapter)
    tune::apply_adapter(decoder, *plan.adapter, true, seed);
  else
    tune::apply_selection(decoder, plan.selection, plan.lora, seed);
}

parallel::EngineOptions engine_options(const TrainArguments& a) {
  parallel::EngineOptions options;
  options.recompute = a.gradient_checkpointing;
  options.exact = a.reduction == "exact";
  options.offload_activations = a.offload_activations;
  options.offload_optimizer = a.offload_optimizer;
  options.offload_folder = offload_folder(a);
  return options;
}

std::string offload_folder(const TrainArguments& a) {
  return a.offload_folder.empty() ? a.output_dir : a.offload_folder;
}

void write_tuned(const fs::path& folder, model::Decoder& decoder, const TuningPlan& plan,
                 const TrainArguments& arguments, LazyEncoder& encoder, const parallel::WholeParameter& whole,
                 const Log& log) {
  if (plan.selection.finetuning_type == tune::FinetuningType::lora) {
    std::map<std::string, tune::LoraConfig> own_lora;
    if (plan.adapter)
      for (const auto& module : plan.adapter->modules) own_lora[module.name] = module.lora;
    tune::write_peft_adapter(folder, decoder, plan.selection, plan.lora, arguments.model_name_or_path, whole,
                             own_lora);
    return;
  }
  model::ExportOptions options;
  options.max_shard_bytes = parse_size(arguments.max_shard_size);
  options.log = log;
  const auto dtype = [&](const std::string&) { return decoder.dtype(); };
  model::export_folder(folder, decoder.config(), {dtype, whole}, options);
  encoder.tokenizer().save(folder);
}

namespace {

parallel::PipelineSchedule pipeline_schedule(const std::string& name) {
  using enum parallel::PipelineSchedule;
  for (const auto schedule : {gpipe, one_forward_one_backward, interleaved, zero_bubble})
    if (name == parallel::schedule_name(schedule)) return schedule;
  throw StateError("pipeline_schedule: " + name);
}

int64_t layer_count(const std::string& found) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), count);
  if (error == std::errc() && end == found.data() + found.size()) return count;
  throw ConfigError(text("pipeline_split: found '", found, "'; wanted numbers of layers, such as 8,7"));
}

}  // namespace

parallel::Plan parallel_plan(const TrainArguments& arguments) {
  parallel::Plan plan;
  plan.zero_stage = static_cast<int>(arguments.zero_stage);
  plan.shard = static_cast<int>(arguments.zero_shard_size);
  plan.tensor = static_cast<int>(arguments.tensor_parallel_size);
  plan.context = static_cast<int>(arguments.context_parallel_size);
  plan.pipeline = static_cast<int>(arguments.pipeline_parallel_size);
  plan.schedule = pipeline_schedule(arguments.pipeline_schedule);
  const bool is_interleaved = plan.schedule == parallel::PipelineSchedule::interleaved;
  plan.chunks = static_cast<int>(arguments.pipeline_chunks);
  if (plan.chunks == 0) plan.chunks = is_interleaved && plan.pipeline > 1 ? 2 : 1;
  for (const std::string& count : arguments.pipeline_split) plan.split.push_back(layer_count(count));
  return plan;
}

std::unique_ptr<train::Optimizer> make_optimizer(const TrainArguments& a) {
  if (a.optim == "sgd") return train::make_sgd({a.sgd_momentum, false, a.weight_decay});
  return train::make_adamw({a.adam_beta1, a.adam_beta2, a.adam_epsilon, a.weight_decay});
}

std::unique_ptr<train::Schedule> make_schedule(const TrainArguments& a, int64_t total_steps) {
  train::ScheduleOptions options;
  options.type = a.lr_scheduler_type;
  options.learning_rate = a.learning_rate;
  options.total_steps = total_steps;
  options.warmup_steps =
      train::resolve_warmup_steps(static_cast<double>(a.warmup_steps), a.warmup_ratio, total_steps);
  options.num_cycles = a.num_cycles.value_or(-1);
  options.min_lr = a.min_lr.value_or(-1);
  options.min_lr_rate = a.min_lr_rate.value_or(-1);
  options.lr_end = a.lr_end;
  options.power = a.power;
  options.timescale = a.timescale.value_or(-1);
  options.num_decay_steps = a.num_decay_steps.value_or(-1);
  options.num_stable_steps = a.num_stable_steps.value_or(-1);
  options.factor = a.factor;
  options.patience = a.patience;
  return train::make_schedule(options);
}

train::TrainerOptions trainer_options(const TrainArguments& a, int64_t total_steps, bool has_eval) {
  train::TrainerOptions options;
  options.output_dir = a.output_dir;
  options.total_steps = total_steps;
  options.num_train_epochs = a.num_train_epochs;
  options.train_batch_size = a.per_device_train_batch_size;
  options.seed = static_cast<uint64_t>(a.seed);
  options.max_grad_norm = a.max_grad_norm;
  options.logging_steps = a.logging_steps;
  options.logging_first_step = a.logging_first_step;
  options.eval = has_eval ? interval(a.eval_strategy, a.eval_steps) : train::Interval{};
  options.eval_on_start = has_eval && a.eval_on_start;
  options.save = interval(a.save_strategy, a.save_steps);
  options.save_total_limit = a.save_total_limit.value_or(0);
  options.load_best_model_at_end = a.load_best_model_at_end;
  options.early_stopping_patience = a.early_stopping_patience;
  options.plot_loss = a.plot_loss;
  options.has_tensorboard = a.report_to != std::vector<std::string>{"none"} && !a.report_to.empty();
  options.log_row_ids = a.log_row_ids;
  options.profiler_steps = a.profiler_steps;
  options.profiler_steps_start = a.profiler_steps_start;
  options.optimizer_name = a.optim == "sgd" ? "sgd" : "adamw";
  options.settings["total_steps"] = std::to_string(total_steps);
  for (const auto& option : train_options().options())
    for (const char* name : remembered)
      if (option.name == name) options.settings[name] = option.get(a);
  return options;
}

void check_resume(const TrainArguments& arguments) {
  const std::string& asked = arguments.resume_from_checkpoint;
  if (asked.empty()) return;
  if (asked != "true" && !fs::is_directory(asked))
    throw ConfigError(text("resume_from_checkpoint: there is no folder '", asked, "'", looked_in(asked)));
  if (asked == "true" && !train::find_last_checkpoint(arguments.output_dir))
    throw ConfigError(
        text("resume_from_checkpoint: true, but ", arguments.output_dir, " holds no complete checkpoint"));
}

std::optional<ResumePoint> checkpoint_to_resume(const TrainArguments& arguments, const RankContext& context) {
  const std::string& asked = arguments.resume_from_checkpoint;
  if (asked.empty()) return std::nullopt;
  if (asked != "true") return ResumePoint{asked};
  std::string folder;
  if (context.log.rank() == 0) {
    for (const fs::path& other : train::folders_without_manifest(arguments.output_dir))
      context.log.warning(text(other.string(),
                               " has no manifest.json, so it is no complete checkpoint of duoka; ",
                               "it is passed over"));
    const train::WholeCheckpoint found = train::find_last_whole_checkpoint(arguments.output_dir);
    if (!found.folder)
      throw FormatError(text("resume_from_checkpoint: true, but no checkpoint in ", arguments.output_dir,
                             " is whole: ", found.damaged.empty() ? "" : found.damaged.front().reason));
    folder = found.folder->string();
    for (const auto& [damaged, reason] : found.damaged)
      context.log.warning(text(damaged.string(), " is damaged, going on from ", folder, " (", reason, ")"));
  }
  comm::broadcast_text(folder, 0, context.group);
  return ResumePoint{folder, true};
}

}  // namespace duoka::cli
