// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/data_files.h"
#include "cli/ranks.h"
#include "duoka/cli/train_arguments.h"
#include "duoka/model/decoder.h"
#include "duoka/parallel/engine.h"
#include "duoka/parallel/plan.h"
#include "duoka/train/optimizer.h"
#include "duoka/train/schedule.h"
#include "duoka/train/trainer.h"
#include "duoka/tune/lora.h"
#include "duoka/tune/peft_files.h"
#include "duoka/tune/selection.h"

namespace duoka::cli {

/// What trains, worked out from the options and the config of the model alone.
struct TuningPlan {
  tune::Selection selection;
  tune::LoraConfig lora;
  std::optional<tune::PeftAdapter> adapter;  ///< adapter_name_or_path, to go on from.
};
TuningPlan plan_tuning(const TrainArguments& arguments, const model::ModelConfig& config);

/// Attaches adapters and marks what trains.
void apply_tuning(model::Decoder& decoder, const TuningPlan& plan, uint64_t seed);

/// How the options spread model and data over the cards.
parallel::Plan parallel_plan(const TrainArguments& arguments);

/// How an engine makes an update, by the options.
parallel::EngineOptions engine_options(const TrainArguments& arguments);
/// Where offloaded tensors go on the CPU: offload_folder, else output_dir.
std::string offload_folder(const TrainArguments& arguments);

/// Writes what was trained into an existing folder: a peft adapter, or the whole model with its tokenizer.
/// `whole` gives a parameter by name. For rank 0.
void write_tuned(const std::filesystem::path& folder, model::Decoder& decoder, const TuningPlan& plan,
                 const TrainArguments& arguments, LazyEncoder& encoder, const parallel::WholeParameter& whole,
                 const Log& log);

std::unique_ptr<train::Optimizer> make_optimizer(const TrainArguments& arguments);
std::unique_ptr<train::Schedule> make_schedule(const TrainArguments& arguments, int64_t total_steps);
train::TrainerOptions trainer_options(const TrainArguments& arguments, int64_t total_steps, bool has_eval);

/// Throws ConfigError when resume_from_checkpoint asks for a checkpoint and there is none, as far as names
/// and sizes tell. Reads no file's bytes.
void check_resume(const TrainArguments& arguments);

/// A checkpoint to go on from, and whether its checksums have been looked at.
struct ResumePoint {
  std::filesystem::path folder;
  bool is_verified = false;
};
/// The one that resume_from_checkpoint means, if any; for true, the newest that is whole, with a warning for
/// each damaged one after it. Collective: rank 0 reads the files, and its answer holds for all. Throws
/// FormatError when all are damaged.
std::optional<ResumePoint> checkpoint_to_resume(const TrainArguments& arguments, const RankContext& context);

}  // namespace duoka::cli
