// SPDX-License-Identifier: Apache-2.0
#include "duoka/cli/train_arguments.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "duoka/core/text.h"

namespace duoka::cli {

namespace {

using A = TrainArguments;
using Table = OptionTable<TrainArguments>;

constexpr std::array ignored_keys{"do_train",
                                  "do_eval",
                                  "trust_remote_code",
                                  "dataloader_num_workers",
                                  "ddp_find_unused_parameters",
                                  "flash_attn",
                                  "use_fast_tokenizer",
                                  "include_num_input_tokens_seen",
                                  "neat_packing",
                                  "remove_unused_columns",
                                  "logging_dir",
                                  "run_name"};

void add_model(Table& t, bool is_needed) {
  t.group("Model");
  t.add("model_name_or_path", &A::model_name_or_path,
        "Base model: a Hugging Face folder or a .gguf file. Nothing is downloaded.");
  if (is_needed) t.required();
  t.add("adapter_name_or_path", &A::adapter_name_or_path, "PEFT adapter folder to go on training from.");
  t.add("finetuning_type", &A::finetuning_type,
        "What trains: adapters (lora), all (full), or the last layers (freeze).")
      .one_of({"lora", "full", "freeze"});
  t.add("freeze_trainable_layers", &A::freeze_trainable_layers,
        "For freeze: how many of the last decoder layers train; negative: of the first.");
  t.add("additional_target", &A::additional_target,
        "Modules trained whole beside the adapters, e.g. embed_tokens,lm_head.");
  t.add("gradient_checkpointing", &A::gradient_checkpointing,
        "Keep only the input of each layer and run its forward again before its backward.");
  t.group("LoRA");
  t.add("lora_rank", &A::lora_rank, "Rank of the adapters.").at_least(1);
  t.add("lora_alpha", &A::lora_alpha, "Scale is lora_alpha / lora_rank; null: twice the rank.").above(0);
  t.add("lora_dropout", &A::lora_dropout, "Dropout on an adapter's input.").within_unit();
  t.add("lora_target", &A::lora_target,
        "Modules with an adapter: names, or all (each linear layer of the decoder).");
  t.add("use_rslora", &A::use_rslora,
        "Scale by lora_alpha / sqrt(lora_rank) instead (rank-stabilised LoRA).");
}

void add_data(Table& t, bool is_training) {
  t.group("Data");
  t.add("stage", &A::stage, "sft: conversations, answers train. pt: plain text, everything trains.")
      .one_of({"sft", "pt"});
  t.add("dataset", &A::dataset, "Data sets, mixed: files, or names in dataset_dir/dataset_info.json.");
  if (is_training) t.required();
  t.add("eval_dataset", &A::eval_dataset, "Data sets for evaluation; or hold out by val_size.");
  t.add("dataset_dir", &A::dataset_dir, "Folder of dataset_info.json.");
  t.add("template", &A::template_, "auto: the model's own chat template; else a .jinja file.");
  t.add("cutoff_len", &A::cutoff_len, "Longest row in tokens; longer ones are cut on the right.").at_least(2);
  t.add("max_samples", &A::max_samples, "At most so many rows of each data set.").at_least(1);
  t.add("val_size", &A::val_size, "Rows held out for evaluation: below 1 a share, else a number; 0: none.")
      .at_least(0);
  t.add("packing", &A::packing,
        "Fill streams of cutoff_len tokens with several rows; rows never see each other.");
  t.add("train_on_prompt", &A::train_on_prompt, "Train on the prompt's tokens too.");
  t.add("mask_history", &A::mask_history, "Train on the last answer of a conversation only.");
  t.add("disable_shuffling", &A::disable_shuffling, "Keep the rows in file order in every epoch.");
  t.add("strict", &A::strict, "Stop at the first row that cannot be used instead of counting it as refused.");
  t.add("overwrite_cache", &A::overwrite_cache, "Tokenise again even when the cache fits.");
  t.add("cache_dir", &A::cache_dir,
        "Where tokenised data is cached; empty: $DUOKA_CACHE, else ~/.cache/duoka.");
  t.add("preprocessing_num_workers", &A::preprocessing_num_workers, "Threads that tokenise; null: all cores.")
      .at_least(1);
}

void add_length(Table& t) {
  t.group("Batches and length");
  t.add("per_device_train_batch_size", &A::per_device_train_batch_size,
        "Rows (with packing: streams) per micro-batch and card.")
      .at_least(1);
  t.add("per_device_eval_batch_size", &A::per_device_eval_batch_size, "The same for evaluation.").at_least(1);
  t.add("gradient_accumulation_steps", &A::gradient_accumulation_steps, "Micro-batches per card and update.")
      .at_least(1);
  t.add("num_train_epochs", &A::num_train_epochs, "Passes over the data, unless max_steps is given.")
      .above(0);
  t.add("max_steps", &A::max_steps, "Updates in all; -1: by num_train_epochs.").at_least(-1);
  t.add("seed", &A::seed, "Decides new weights, dropout and, unless data_seed is given, the order of rows.")
      .at_least(0);
  t.add("data_seed", &A::data_seed, "Decides the order of rows; null: seed.").at_least(0);
}

void add_optimizer(Table& t) {
  t.group("Optimizer");
  t.add("optim", &A::optim, "adamw_torch and adamw_torch_fused are one fused AdamW here.")
      .one_of({"adamw_torch", "adamw_torch_fused", "sgd"});
  t.add("learning_rate", &A::learning_rate, "Peak learning rate.").above(0);
  t.add("weight_decay", &A::weight_decay, "Decoupled decay; norms and biases have none.").at_least(0);
  t.add("adam_beta1", &A::adam_beta1, "Decay of the first moment.").within_unit();
  t.add("adam_beta2", &A::adam_beta2, "Decay of the second moment.").within_unit();
  t.add("adam_epsilon", &A::adam_epsilon, "Added to the root of the second moment.").above(0);
  t.add("sgd_momentum", &A::sgd_momentum, "Momentum of SGD.").within_unit();
  t.add("max_grad_norm", &A::max_grad_norm, "Gradients are scaled down to this norm; 0: never.").at_least(0);
}

void add_schedule(Table& t) {
  t.group("Learning-rate schedule");
  t.add("lr_scheduler_type", &A::lr_scheduler_type, "Shape of the learning rate over the run.")
      .one_of({"constant", "constant_with_warmup", "linear", "cosine", "cosine_with_restarts",
               "cosine_with_min_lr", "polynomial", "inverse_sqrt", "warmup_stable_decay",
               "reduce_lr_on_plateau"});
  t.add("warmup_ratio", &A::warmup_ratio, "Share of the updates over which the rate rises from 0.")
      .within_unit();
  t.add("warmup_steps", &A::warmup_steps, "The same as a number of updates; wins over warmup_ratio.")
      .at_least(0);
  t.add("lr_scheduler_kwargs.min_lr", &A::min_lr, "cosine_with_min_lr: lowest rate.").at_least(0);
  t.add("lr_scheduler_kwargs.min_lr_rate", &A::min_lr_rate, "The same as a share of learning_rate.")
      .within_unit();
  t.add("lr_scheduler_kwargs.num_cycles", &A::num_cycles,
        "cosine: waves (0.5: down to 0); with restarts: restarts.")
      .above(0);
  t.add("lr_scheduler_kwargs.power", &A::power, "polynomial: exponent.").above(0);
  t.add("lr_scheduler_kwargs.lr_end", &A::lr_end, "polynomial: last rate.").at_least(0);
  t.add("lr_scheduler_kwargs.timescale", &A::timescale, "inverse_sqrt: time scale; null: the warm-up.")
      .at_least(1);
  t.add("lr_scheduler_kwargs.num_stable_steps", &A::num_stable_steps,
        "warmup_stable_decay: updates at the peak; null: the rest.")
      .at_least(0);
  t.add("lr_scheduler_kwargs.num_decay_steps", &A::num_decay_steps, "warmup_stable_decay: updates of decay.")
      .at_least(0);
  t.add("lr_scheduler_kwargs.factor", &A::factor, "reduce_lr_on_plateau: rate is multiplied by this.")
      .within_unit();
  t.add("lr_scheduler_kwargs.patience", &A::patience,
        "reduce_lr_on_plateau: evaluations without progress before that.")
      .at_least(0);
}

void add_run(Table& t, bool is_training) {
  t.group("Precision and cards");
  t.add("bf16", &A::bf16, "Compute in bfloat16; weights that train and their moments stay in float32.");
  t.add(
       "zero_stage", &A::zero_stage,
       "What the data-parallel cards share: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too.")
      .at_least(0);
  t.add("zero_shard_size", &A::zero_shard_size,
        "Cards that share one copy (the cards of one machine, say); the others hold further copies. 0: all.")
      .at_least(0);
  t.add("tensor_parallel_size", &A::tensor_parallel_size, "Cards that share each matrix of the model.")
      .at_least(1);
  t.add("context_parallel_size", &A::context_parallel_size,
        "Cards that share the tokens of each row: for rows too long for one card.")
      .at_least(1);
  t.add("pipeline_parallel_size", &A::pipeline_parallel_size, "Cards that share the layers of the model.")
      .at_least(1);
  t.add("pipeline_schedule", &A::pipeline_schedule,
        "In which order a card of the pipeline takes its micro-batches forward and back.")
      .one_of({"gpipe", "1f1b", "interleaved", "zero_bubble"});
  t.add("pipeline_chunks", &A::pipeline_chunks,
        "Pieces of the model that each card holds; more than 1 with interleaved. 0: 2 there, else 1.")
      .at_least(0);
  t.add("pipeline_split", &A::pipeline_split,
        "Layers of each piece, in the order of the model; the embedding is the first layer, the head the "
        "last. Left out: spread by what they cost.");
  t.add("reduction", &A::reduction,
        "fast: the order in which gradients are added depends on the cards. exact: it does not, so any "
        "number of "
        "cards (1, 2, 4, 8, …), zero_stage and accumulation give the same bits.")
      .one_of({"fast", "exact"});
  t.add("offload_optimizer", &A::offload_optimizer,
        "Keep the optimizer's state and float32 masters in host memory (on the CPU: in a file).");
  t.add("offload_activations", &A::offload_activations,
        "Keep what layers save for their backward in host memory (on the CPU: in a file); it comes back a "
        "layer ahead.");
  t.add("offload_folder", &A::offload_folder,
        "Where that file lies on the CPU: a fast local disk; it has no name and goes with the run. Empty: "
        "output_dir.");
  t.add("ddp_timeout", &A::ddp_timeout, "Seconds a rank waits for the others.").at_least(1);
  t.group("Evaluation");
  t.add("eval_strategy", &A::eval_strategy,
        "When to evaluate; auto: by eval_steps where there is evaluation data.")
      .one_of({"auto", "no", "steps", "epoch"});
  t.add("eval_steps", &A::eval_steps, "Updates between evaluations.").at_least(1);
  t.add("eval_on_start", &A::eval_on_start, "Evaluate before the first update too.");
  t.add("load_best_model_at_end", &A::load_best_model_at_end,
        "Finish with the checkpoint of the lowest evaluation loss.");
  t.add("early_stopping_patience", &A::early_stopping_patience,
        "Stop after so many evaluations without a lower loss; 0: never.")
      .at_least(0);
  t.group("Output");
  t.add("output_dir", &A::output_dir, "Folder for checkpoints, logs and the result.");
  if (is_training) t.required();
  t.add("overwrite_output_dir", &A::overwrite_output_dir,
        "Start anew in a folder that holds an earlier run.");
  t.add("resume_from_checkpoint", &A::resume_from_checkpoint,
        "A checkpoint-N folder, or true for the last one in output_dir.");
  t.add("save_strategy", &A::save_strategy, "When to write checkpoints.").one_of({"no", "steps", "epoch"});
  t.add("save_steps", &A::save_steps, "Updates between checkpoints.").at_least(1);
  t.add("save_total_limit", &A::save_total_limit, "Keep at most so many checkpoints; null: all.").at_least(1);
  t.add("max_shard_size", &A::max_shard_size, "Largest safetensors file of a full model.");
  t.add("logging_steps", &A::logging_steps, "Updates between log lines.").at_least(1);
  t.add("logging_first_step", &A::logging_first_step, "Log the first update too.");
  t.add("plot_loss", &A::plot_loss, "Write training_loss.svg.");
  t.add("report_to", &A::report_to, "tensorboard, or none.");
  t.add("log_row_ids", &A::log_row_ids, "Write the row numbers of each update to row_ids.jsonl.");
  t.add("profiler_steps", &A::profiler_steps,
        "Updates of which trace.json shows what each card did when, for ui.perfetto.dev; 0: none.")
      .at_least(0);
  t.add("profiler_steps_start", &A::profiler_steps_start,
        "Updates before those; the first one also warms up.")
      .at_least(0);
}

/// Keys that LLaMA-Factory's files carry and that change nothing here; they are named in a warning.
void add_ignored(Table& t) {
  t.group("Accepted and ignored");
  for (const char* key : ignored_keys)
    t.add(key, &A::ignored_keys, "Changes nothing here.").sets([key](A& arguments, const OptionValue&) {
      arguments.ignored_keys.push_back(key);
    });
}

Table make_table(bool is_training, bool needs_model = true) {
  Table t;
  add_model(t, needs_model);
  add_data(t, is_training);
  add_length(t);
  add_optimizer(t);
  add_schedule(t);
  add_run(t, is_training);
  add_ignored(t);
  return t;
}

}  // namespace

const OptionTable<TrainArguments>& train_options() {
  static const Table table = make_table(true);
  return table;
}

const OptionTable<TrainArguments>& inspect_options() {
  static const Table table = make_table(false);
  return table;
}

const OptionTable<TrainArguments>& plan_options() {
  static const Table table = make_table(false, /*needs_model=*/false);
  return table;
}

namespace {
/// resume_from_checkpoint is true, false or a folder: "true", "" and its name.
std::string resume_text(const std::string& found) {
  for (const char* word : {"true", "True", "yes", "on"})
    if (found == word) return "true";
  for (const char* word : {"false", "False", "no", "off"})
    if (found == word) return "";
  return found;
}
}  // namespace

TrainArguments read_train_arguments(const OptionWords& words) {
  A arguments = read_options(words, train_options());
  arguments.resume_from_checkpoint = resume_text(arguments.resume_from_checkpoint);
  check_train_arguments(arguments);
  return arguments;
}

int64_t parse_size(std::string_view found) {
  static constexpr std::pair<std::string_view, int64_t> units[] = {{"KIB", int64_t{1} << 10},
                                                                   {"MIB", int64_t{1} << 20},
                                                                   {"GIB", int64_t{1} << 30},
                                                                   {"TIB", int64_t{1} << 40},
                                                                   {"KB", 1000},
                                                                   {"MB", 1000000},
                                                                   {"GB", 1000000000},
                                                                   {"TB", 1000000000000},
                                                                   {"", 1}};
  double value = 0;
  const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
  std::string unit(end, found.data() + found.size());
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  for (const auto& [name, bytes] : units)
    if (const double size = value * static_cast<double>(bytes);
        error == std::errc() && unit == name && size >= 1 && size < 1e18)
      return static_cast<int64_t>(size);
  throw ConfigError(text("max_shard_size: found '", found, "'; wanted a size such as 5GB or 200MB"));
}

}  // namespace duoka::cli
