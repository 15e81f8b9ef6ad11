// SPDX-License-Identifier: Apache-2.0
// What takes more than one option of TrainArguments to judge.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "duoka/cli/train_arguments.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/parallel/pipeline_schedule.h"

namespace duoka::cli {

namespace {

using A = TrainArguments;

bool has_evaluations(const A& a) {
  return a.eval_strategy != "no" && (!a.eval_dataset.empty() || a.val_size > 0);
}

void check_evaluation(const A& a) {
  if (a.eval_strategy == "steps" || a.eval_strategy == "epoch") {
    if (a.eval_dataset.empty() && a.val_size == 0)
      throw ConfigError(text("eval_strategy: ", a.eval_strategy,
                             " but nothing to evaluate on; set val_size or eval_dataset"));
  }
  if (!a.eval_dataset.empty() && a.val_size > 0)
    throw ConfigError("both eval_dataset and val_size are given; leave one out");
  if (!has_evaluations(a) && (a.load_best_model_at_end || a.early_stopping_patience > 0 || a.eval_on_start ||
                              a.lr_scheduler_type == "reduce_lr_on_plateau"))
    throw ConfigError(
        "load_best_model_at_end, early_stopping_patience, eval_on_start and reduce_lr_on_plateau need "
        "evaluations; set val_size or eval_dataset and an eval_strategy other than no");
  if (a.load_best_model_at_end && a.save_strategy == "no")
    throw ConfigError("load_best_model_at_end needs checkpoints; set save_strategy to steps or epoch");
}

void check_finetuning(const A& a) {
  if (a.finetuning_type == "freeze" && a.freeze_trainable_layers == 0)
    throw ConfigError(
        "finetuning_type: freeze trains nothing with freeze_trainable_layers: 0; give a number of layers");
  if (a.finetuning_type != "lora" && !a.adapter_name_or_path.empty())
    throw ConfigError(text("adapter_name_or_path goes with finetuning_type: lora; found ", a.finetuning_type,
                           ". `duoka merge` puts an adapter into its base"));
}

void check_report_to(const A& a) {
  for (const std::string& where : a.report_to) {
    if (where != "tensorboard" && where != "none")
      throw ConfigError(text("report_to: found '", where, "'; wanted tensorboard or none"));
    if (where == "none" && a.report_to.size() > 1)
      throw ConfigError(text("report_to: found ", join(a.report_to), "; wanted tensorboard or none"));
  }
}

/// Products of counts must stay below 2^63, and what tensors are scaled by must be a float32.
void check_magnitudes(const A& a) {
  constexpr double most_count = 1e9, most_epochs = 1e6, most_number = 1e30;
  for (const auto& option : train_options().options()) {
    const bool is_count = option.type == "int";
    if ((!is_count && option.type != "number") || option.name == "seed" || option.name == "data_seed")
      continue;
    const std::string value = option.get(a);
    const double most = is_count ? most_count : option.name == "num_train_epochs" ? most_epochs : most_number;
    if (value != "null" && std::abs(option_parse::number(value)) > most)
      throw ConfigError(text(option.name, ": found ", value, "; wanted a number of at most ", most));
  }
}

/// Options that some other option leaves without effect.
struct Idle {
  bool is_so;
  std::string because;
  std::vector<std::string> keys;
};

/// Those of lr_scheduler_kwargs.
std::vector<Idle> idle_schedule_options(const A& a) {
  const std::string& type = a.lr_scheduler_type;
  const bool is_wsd = type == "warmup_stable_decay", is_min = type == "cosine_with_min_lr";
  const std::string because = "lr_scheduler_type: " + type, k = "lr_scheduler_kwargs.";
  return {
      {!is_min, because, {k + "min_lr"}},
      {!is_min && !is_wsd, because, {k + "min_lr_rate"}},
      {!type.starts_with("cosine") && !is_wsd, because, {k + "num_cycles"}},
      {type != "polynomial", because, {k + "power", k + "lr_end"}},
      {type != "inverse_sqrt", because, {k + "timescale"}},
      {!is_wsd, because, {k + "num_stable_steps", k + "num_decay_steps"}},
      {type != "reduce_lr_on_plateau", because, {k + "factor", k + "patience"}},
      {type == "constant" || type == "reduce_lr_on_plateau", because, {"warmup_ratio", "warmup_steps"}},
  };
}

/// Those that spread the work, by how many cards there are to share it.
std::vector<Idle> idle_layout_options(const A& a, const parallel::Plan& plan) {
  const bool is_one = plan.pipeline == 1, has_state = plan.zero_stage > 0;
  // Ranks of a context axis share the state too.
  const bool is_shared = plan.shard * plan.context > 1;
  const int64_t summed = int64_t{plan.data} * plan.context * plan.tensor;
  const int64_t ordered = is_one ? a.gradient_accumulation_steps : 1;
  return {
      {is_one, "pipeline_parallel_size: 1", {"pipeline_schedule", "pipeline_chunks", "pipeline_split"}},
      {!has_state, "zero_stage: 0", {"zero_shard_size"}},
      {has_state && !is_shared && plan.data > 1,
       "zero_shard_size: 1 leaves each card its own",
       {"zero_stage"}},
      {has_state && !is_shared && plan.data == 1, "no other card has the same parameters", {"zero_stage"}},
      {has_state && plan.shard == plan.data,
       text("as by default, ", plan.data == 1 ? "for " : "of all ", counted(plan.data, "data-parallel card")),
       {"zero_shard_size"}},
      {summed * ordered == 1,
       is_one ? "an update is one micro-batch" : "a pipeline adds its micro-batches one after the other",
       {"reduction"}},
  };
}

std::vector<Idle> idle_options(const A& a) {
  const std::vector<std::string> lora{"lora_rank", "lora_alpha", "lora_dropout", "lora_target", "use_rslora"};
  std::vector<Idle> all{
      {a.finetuning_type != "lora", "finetuning_type: " + a.finetuning_type, lora},
      {!a.adapter_name_or_path.empty(), "adapter_name_or_path has its own", lora},
      {!a.adapter_name_or_path.empty(), "adapter_name_or_path has its own", {"additional_target"}},
      {a.finetuning_type != "freeze", "finetuning_type: " + a.finetuning_type, {"freeze_trainable_layers"}},
      {a.finetuning_type == "lora", "finetuning_type: lora", {"max_shard_size"}},
      {a.optim != "sgd", "optim: " + a.optim, {"sgd_momentum"}},
      {a.optim == "sgd", "optim: sgd", {"adam_beta1", "adam_beta2", "adam_epsilon"}},
      {a.warmup_steps > 0, "warmup_steps is given", {"warmup_ratio"}},
      {a.max_steps > 0, "max_steps is given", {"num_train_epochs"}},
      {!has_evaluations(a), "nothing is evaluated", {"eval_steps", "per_device_eval_batch_size"}},
      {a.eval_strategy == "epoch", "eval_strategy: epoch", {"eval_steps"}},
      {a.save_strategy != "steps", "save_strategy: " + a.save_strategy, {"save_steps"}},
      {a.profiler_steps == 0, "profiler_steps: 0", {"profiler_steps_start"}},
      {a.save_strategy == "no", "save_strategy: no", {"save_total_limit"}},
      {!a.offload_optimizer && !a.offload_activations, "nothing is offloaded", {"offload_folder"}},
  };
  for (Idle& idle : idle_schedule_options(a)) all.push_back(std::move(idle));
  return all;
}

/// Share of the time that the cards of a pipeline of like stages wait for each other.
double idle_share(const parallel::Plan& plan, int64_t micro_batches) {
  const parallel::PipelineShape shape{plan.schedule, plan.pipeline, static_cast<int>(micro_batches),
                                      plan.chunks};
  const std::vector<double> alike(static_cast<size_t>(shape.num_stages()), 1.0);
  const auto idle = parallel::simulate(pipeline_lists(shape), {alike, alike, alike}).idle_share;
  return std::accumulate(idle.begin(), idle.end(), 0.0) / static_cast<double>(idle.size());
}

}  // namespace

void check_train_arguments(const A& a) {
  check_magnitudes(a);
  check_evaluation(a);
  check_finetuning(a);
  if (a.max_steps == 0)
    throw ConfigError("max_steps: found 0; wanted a number of updates, or -1 to go by num_train_epochs");
  check_report_to(a);
  parse_size(a.max_shard_size);
}

std::vector<std::string> layout_advice(const A& a, const parallel::Plan& plan) {
  std::vector<std::string> lines;
  const int64_t micro = a.gradient_accumulation_steps;
  if (micro < plan.pipeline) {
    const auto percent = [&](int64_t count) { return std::lround(100 * idle_share(plan, count)); };
    const int64_t enough = int64_t{4} * plan.pipeline;
    lines.push_back(text("pipeline_parallel_size: ", plan.pipeline, " with ", counted(micro, "micro-batch"),
                         " an update: the cards are idle for about ", percent(micro),
                         " % of the time; with gradient_accumulation_steps: ", enough, " for ",
                         percent(enough), " %"));
  }
  std::vector<std::string> unordered;
  for (const auto& [key, size] :
       {std::pair("tensor_parallel_size: ", plan.tensor), std::pair("context_parallel_size: ", plan.context),
        std::pair("pipeline_parallel_size: ", plan.pipeline)})
    if (size > 1) unordered.push_back(text(key, size));
  if (a.reduction == "exact" && !unordered.empty())
    lines.push_back(text("reduction: exact: the bits still depend on ", join(unordered),
                         ", which changes sums that it does not order"));
  return lines;
}

std::vector<std::string> options_without_effect(const A& a, const parallel::Plan& plan) {
  std::vector<std::string> found;
  const A defaults;
  std::vector<Idle> all = idle_options(a);
  for (Idle& idle : idle_layout_options(a, plan)) all.push_back(std::move(idle));
  for (const Idle& idle : all) {
    if (!idle.is_so) continue;
    for (const auto& option : train_options().options())
      if (std::find(idle.keys.begin(), idle.keys.end(), option.name) != idle.keys.end() &&
          option.get(a) != option.get(defaults))
        found.push_back(text(option.name, " changes nothing in this run (", idle.because, ")"));
  }
  return found;
}

}  // namespace duoka::cli
