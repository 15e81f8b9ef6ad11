// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "duoka/comm/group.h"
#include "duoka/data/chat_template.h"
#include "duoka/data/dataset.h"
#include "duoka/data/loader.h"
#include "duoka/data/tokenizer.h"
#include "duoka/model/decoder.h"
#include "duoka/parallel/assemble.h"
#include "duoka/train/trainer.h"
#include "duoka/tune/lora.h"
#include "duoka/tune/selection.h"
#include "support/test_files.h"

namespace duoka::testing {

inline constexpr int64_t all_rows = std::numeric_limits<int64_t>::max();

/// Rows of a JSONL file as a model's own tokenizer and template make them. Read once; all ranks may share it.
class SmallData {
 public:
  /// Rows [first, first + count) of the file, from 0.
  explicit SmallData(const std::filesystem::path& file = fixture("cases/rows7.jsonl"),
                     int64_t count = all_rows, int64_t first = 0,
                     const std::filesystem::path& model = fixture("cases/models/tiny-llama"));

  const data::RowSet& rows() const { return *rows_; }
  const data::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  TemporaryFolder cache_;
  data::Tokenizer tokenizer_;
  data::ChatTemplate template_;
  std::optional<data::RowSet> rows_;
};

/// Writes `count` conversations of different lengths (3 to about 40 trained tokens of the tiny models'
/// tokenizers), the same ones each time.
std::filesystem::path write_rows(const std::filesystem::path& path, int64_t count);

/// A training in a few numbers. Defaults: full training in f32, rows in the file's order one at a time,
/// plain SGD at 0.1 without clipping, one epoch.
struct SmallSetup {
  std::filesystem::path model = fixture("cases/models/tiny-llama");
  at::ScalarType dtype = at::kFloat;
  tune::SelectionOptions selection = {.finetuning_type = tune::FinetuningType::full};
  tune::LoraConfig lora = {};
  bool recompute = false;
  parallel::Plan plan = {};
  bool exact = false;
  bool offload_activations = false, offload_optimizer = false;  ///< To output_dir.
  uint64_t seed = 5;

  int64_t rows_per_stream = 1;
  int64_t streams_per_update = 1;  ///< Over all ranks.
  int64_t packed_tokens = 0;       ///< Above 0: rows are packed into streams of so many.
  bool is_shuffled = false;
  double num_epochs = 1;
  int64_t max_steps = 0;

  bool is_adamw = false;
  double momentum = 0;
  double weight_decay = 0;
  double max_grad_norm = 0;
  train::ScheduleOptions schedule = {.type = "constant", .learning_rate = 0.1};

  train::Interval eval = {};
  train::Interval save = {};
  bool load_best_model_at_end = false;
  int64_t early_stopping_patience = 0;
  bool log_row_ids = false;
  std::filesystem::path counts_from = {};            ///< Checkpoint whose updates count to num_epochs.
  std::map<std::string, std::string> settings = {};  ///< What a checkpoint remembers besides.
  /// Called on each rank when an update's gradient is whole and clipped, and the weights are updated.
  std::function<void(std::span<const parallel::Slot>)> after_step = {};
};

/// AdamW-style LoRA of the tests: rank 4 on q_proj and v_proj.
SmallSetup lora_setup(double dropout);

/// One rank of a training, composed as `duoka train` does it.
class SmallTraining {
 public:
  /// `output_dir`: the same on all ranks. `eval`: what is evaluated, if anything. Data and group outlive
  /// this.
  SmallTraining(const SmallSetup& setup, const SmallData& data, const std::filesystem::path& output_dir,
                const comm::Group& group = {}, const SmallData* eval = nullptr);
  ~SmallTraining();

  train::TrainSummary run(const std::filesystem::path& checkpoint = {});

  model::Decoder& decoder() { return decoder_; }
  parallel::Engine& engine() { return *engine_; }
  /// Mean loss of `data` by the weights as they are now: each token counts once. Collective.
  double loss_of(const SmallData& data);
  /// Names of what trains, in the order of the chain.
  std::vector<std::string> trained_names();
  /// All of what trains, as values of the layers, in that order; on rank 0 only. Collective.
  std::vector<at::Tensor> trained_values();

 private:
  class WatchedOptimizer;

  SmallSetup setup_;
  parallel::Layout layout_;
  model::Decoder decoder_;
  std::unique_ptr<parallel::Engine> engine_;
  std::unique_ptr<data::Loader> loader_, eval_loader_;
  std::unique_ptr<WatchedOptimizer> optimizer_;
  std::unique_ptr<train::Schedule> schedule_;
  std::unique_ptr<train::Trainer> trainer_;
};

/// What trainer_state.json of a finished run says of each update ("loss", "grad_norm", "learning_rate") or
/// evaluation ("eval_loss"), in order.
std::vector<double> history(const std::filesystem::path& output_dir, const std::string& value);

/// A layout with a name for tests.
struct Grid {
  std::string name;
  int num_ranks = 1;
  parallel::Plan plan = {};
};

/// What a training came to.
struct Finished {
  std::vector<double> losses, norms;  ///< Of each update.
  std::vector<std::string> names;     ///< Of what trained, in the order of the chain.
  std::vector<at::Tensor> values;     ///< Its values at the end.
  parallel::OffloadTraffic traffic;   ///< Of rank 0.
};

/// Trains on the ranks of `grid`, which are threads, under its plan; from `checkpoint` if one is given.
Finished train_on(const Grid& grid, SmallSetup setup, const SmallData& data,
                  const std::filesystem::path& output_dir, const std::filesystem::path& checkpoint = {});

/// Losses within 1e-5 of the wanted ones, norms within 1e-4 of theirs, values within 1e-5.
void expect_near(const Finished& found, const Finished& wanted);
void expect_same_bits(const Finished& found, const Finished& wanted);

}  // namespace duoka::testing
