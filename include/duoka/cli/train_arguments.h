// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "duoka/cli/read_options.h"
#include "duoka/core/options.h"
#include "duoka/parallel/plan.h"

namespace duoka::cli {

/// What a config file of `duoka train` can say. Keys are LLaMA-Factory's and Hugging Face's; defaults are
/// theirs too. Parts of it are turned into the plain structs of the layers below (see train_command).
struct TrainArguments {
  // Model
  std::string model_name_or_path;
  std::string adapter_name_or_path;
  std::string finetuning_type = "lora";
  int64_t freeze_trainable_layers = 2;
  std::vector<std::string> additional_target;
  bool gradient_checkpointing = false;
  // LoRA
  int64_t lora_rank = 8;
  std::optional<double> lora_alpha;
  double lora_dropout = 0;
  std::vector<std::string> lora_target{"all"};
  bool use_rslora = false;
  // Data
  std::string stage = "sft";
  std::vector<std::string> dataset;
  std::vector<std::string> eval_dataset;
  std::string dataset_dir = "data";
  std::string template_ = "auto";
  int64_t cutoff_len = 2048;
  std::optional<int64_t> max_samples;
  double val_size = 0;
  bool packing = false;
  bool train_on_prompt = false;
  bool mask_history = false;
  bool disable_shuffling = false;
  bool strict = false;
  bool overwrite_cache = false;
  std::string cache_dir;
  std::optional<int64_t> preprocessing_num_workers;
  // Batches and length
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 8;
  int64_t gradient_accumulation_steps = 1;
  double num_train_epochs = 3;
  int64_t max_steps = -1;
  int64_t seed = 42;
  std::optional<int64_t> data_seed;
  // Optimizer
  std::string optim = "adamw_torch";
  double learning_rate = 5e-5;
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double sgd_momentum = 0;
  double max_grad_norm = 1;
  // Schedule
  std::string lr_scheduler_type = "linear";
  double warmup_ratio = 0;
  int64_t warmup_steps = 0;
  // lr_scheduler_kwargs.*
  std::optional<double> min_lr;
  std::optional<double> min_lr_rate;
  std::optional<double> num_cycles;
  double power = 1;
  double lr_end = 1e-7;
  std::optional<int64_t> timescale;
  std::optional<int64_t> num_stable_steps;
  std::optional<int64_t> num_decay_steps;
  double factor = 0.1;
  int64_t patience = 10;
  // Precision and cards
  bool bf16 = false;
  int64_t zero_stage = 0;
  int64_t zero_shard_size = 0;
  int64_t tensor_parallel_size = 1;
  int64_t context_parallel_size = 1;
  int64_t pipeline_parallel_size = 1;
  std::string pipeline_schedule = "1f1b";
  int64_t pipeline_chunks = 0;
  std::vector<std::string> pipeline_split;
  std::string reduction = "fast";
  bool offload_optimizer = false;
  bool offload_activations = false;
  std::string offload_folder;
  int64_t ddp_timeout = 1800;
  // Evaluation
  std::string eval_strategy = "auto";
  int64_t eval_steps = 500;
  bool eval_on_start = false;
  bool load_best_model_at_end = false;
  int64_t early_stopping_patience = 0;
  // Output
  std::string output_dir;
  bool overwrite_output_dir = false;
  std::string resume_from_checkpoint;
  std::string save_strategy = "steps";
  int64_t save_steps = 500;
  std::optional<int64_t> save_total_limit;
  std::string max_shard_size = "5GB";
  int64_t logging_steps = 10;
  bool logging_first_step = false;
  bool plot_loss = true;
  std::vector<std::string> report_to{"tensorboard"};
  bool log_row_ids = false;
  int64_t profiler_steps = 0;
  int64_t profiler_steps_start = 1;

  std::vector<std::string>
      ignored_keys;  ///< Given keys that other trainers know and that change nothing here.
};

/// The one table of TrainArguments.
const OptionTable<TrainArguments>& train_options();
/// The same for commands that look at a training's model and data only: nothing but the model is required.
const OptionTable<TrainArguments>& inspect_options();
/// For `duoka plan`, whose model may be given by a flag: nothing is required.
const OptionTable<TrainArguments>& plan_options();

/// Reads and checks a training's options, before anything else is opened. Throws ConfigError.
TrainArguments read_train_arguments(const OptionWords& words);

/// Checks that need more than one option. Throws ConfigError.
void check_train_arguments(const TrainArguments& arguments);

/// The options given that others, or the cards, leave without effect: "sgd_momentum changes nothing in this
/// run (optim: adamw_torch)". `plan`: that of `arguments`, resolved.
std::vector<std::string> options_without_effect(const TrainArguments& arguments, const parallel::Plan& plan);

/// What is asked for and done, but not as one may expect: a line each.
std::vector<std::string> layout_advice(const TrainArguments& arguments, const parallel::Plan& plan);

/// "5GB", "200MB", "1GiB" or plain bytes. Throws ConfigError.
int64_t parse_size(std::string_view text);

}  // namespace duoka::cli
