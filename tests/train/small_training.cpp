// SPDX-License-Identifier: Apache-2.0
#include "train/small_training.h"

#include <numeric>
#include <sstream>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "duoka/data/row_encoder.h"
#include "duoka/train/optimizer.h"
#include "duoka/train/trainer_state.h"
#include "support/run_ranks.h"

namespace duoka::testing {

SmallData::SmallData(const std::filesystem::path& file, int64_t count, int64_t first,
                     const std::filesystem::path& model)
    : tokenizer_(data::Tokenizer::from_folder(model)),
      template_(data::ChatTemplate::parse(tokenizer_.chat_template().value(), model.string())) {
  const data::RowEncoder encoder(tokenizer_, &template_, {});
  data::DatasetOptions options;
  options.cache_folder = cache_.path().string();
  const auto sources = data::find_sources({file.string()}, "");
  auto dataset = std::make_shared<const data::Dataset>(data::Dataset::open(sources, encoder, options, Log()));
  std::vector<int64_t> ids(static_cast<size_t>(std::min(count, dataset->num_rows() - first)));
  std::iota(ids.begin(), ids.end(), first);
  rows_.emplace(std::move(dataset), std::move(ids));
}

std::filesystem::path write_rows(const std::filesystem::path& path, int64_t count) {
  const std::vector<std::string> words{"cat", "the dog", "river", "and 17", "sat", "a number", "is it"};
  std::ostringstream lines;
  for (int64_t row = 0; row < count; ++row) {
    std::string answer = "row " + std::to_string(row);
    for (int64_t i = 0; i < row * row % 9; ++i) answer += " " + words[static_cast<size_t>((row + 3 * i) % 7)];
    lines << R"({"messages": [{"role": "user", "content": ")" << words[static_cast<size_t>(row % 7)]
          << R"("}, {"role": "assistant", "content": ")" << answer << "\"}]}\n";
  }
  write_file(path, lines.str());
  return path;
}

SmallSetup lora_setup(double dropout) {
  SmallSetup setup;
  setup.selection = {.lora_target = "q_proj,v_proj"};
  setup.lora = {.rank = 4, .alpha = 8, .dropout = dropout};
  setup.is_adamw = true;
  setup.schedule.learning_rate = 0.01;
  return setup;
}

/// The optimizer, with a look at what it did.
class SmallTraining::WatchedOptimizer final : public train::Optimizer {
 public:
  WatchedOptimizer(std::unique_ptr<train::Optimizer> real, const SmallSetup& setup)
      : real_(std::move(real)), after_step_(setup.after_step) {}

  void prepare(std::span<parallel::Slot> slots) const override { real_->prepare(slots); }
  void step(std::span<parallel::Slot> slots, double lr) const override {
    real_->step(slots, lr);
    if (after_step_) after_step_(slots);
  }
  int64_t state_bytes_per_element(int64_t element_size) const override {
    return real_->state_bytes_per_element(element_size);
  }

 private:
  std::unique_ptr<train::Optimizer> real_;
  std::function<void(std::span<const parallel::Slot>)> after_step_;
};

namespace {

std::unique_ptr<data::Loader> make_loader(const SmallSetup& setup, const SmallData& data,
                                          const parallel::Layout::DataShare& share) {
  data::LoaderOptions options{{}, share.rank, share.size};
  options.pack.is_packing = setup.packed_tokens > 0;
  options.pack.tokens_per_stream = setup.packed_tokens;
  options.pack.rows_per_stream = setup.rows_per_stream;
  options.pack.streams_per_update = setup.streams_per_update;
  options.pack.seed = setup.seed;
  options.pack.is_shuffled = setup.is_shuffled;
  return std::make_unique<data::Loader>(data.rows(), options);
}

std::unique_ptr<data::Loader> make_eval_loader(const SmallData& data,
                                               const parallel::Layout::DataShare& share) {
  data::LoaderOptions options{{}, share.rank, share.size};
  options.pack.rows_per_stream = 2;
  options.pack.streams_per_update = share.size;
  options.pack.is_shuffled = false;
  return std::make_unique<data::Loader>(data.rows(), options);
}

train::TrainerOptions trainer_options(const SmallSetup& setup, const std::filesystem::path& output_dir,
                                      int64_t total_steps) {
  train::TrainerOptions options;
  options.output_dir = output_dir;
  options.total_steps = total_steps;
  options.num_train_epochs = setup.num_epochs;
  options.train_batch_size = setup.rows_per_stream;
  options.seed = setup.seed;
  options.max_grad_norm = setup.max_grad_norm;
  options.logging_steps = 1;
  options.eval = setup.eval;
  options.save = setup.save;
  options.load_best_model_at_end = setup.load_best_model_at_end;
  options.early_stopping_patience = setup.early_stopping_patience;
  options.plot_loss = false;
  options.has_tensorboard = false;
  options.log_row_ids = setup.log_row_ids;
  options.optimizer_name = setup.is_adamw ? "adamw" : "sgd";
  options.settings = setup.settings;
  return options;
}

const std::vector<LayerRange>& share_layers(parallel::Layout& layout, const std::filesystem::path& model) {
  layout.share_layers(parallel::stack_of(model::read_config(model)));
  return layout.layers();
}

}  // namespace

SmallTraining::SmallTraining(const SmallSetup& setup, const SmallData& data,
                             const std::filesystem::path& output_dir, const comm::Group& group,
                             const SmallData* eval)
    : setup_(setup),
      layout_(setup.plan, group),
      decoder_(model::Decoder::load(
          setup.model, {.dtype = setup.dtype,
                        .log = Log(group.rank()),
                        .tensor_axis = layout_.tensor_axis(),
                        .context_axis = layout_.context_axis(),
                        .layers = share_layers(layout_, setup.model),
                        .on_parameter = [this](Parameter& parameter) { layout_.keep(parameter); }})) {
  tune::apply_selection(decoder_, tune::select(decoder_.config(), setup.selection), setup.lora, setup.seed);
  engine_ = parallel::assemble(decoder_.chain(), layout_,
                               {.recompute = setup.recompute,
                                .exact = setup.exact,
                                .offload_activations = setup.offload_activations,
                                .offload_optimizer = setup.offload_optimizer,
                                .offload_folder = output_dir});
  loader_ = make_loader(setup, data, layout_.data_share());
  if (eval != nullptr) eval_loader_ = make_eval_loader(*eval, layout_.data_share());
  optimizer_ = std::make_unique<WatchedOptimizer>(
      setup.is_adamw ? train::make_adamw({.weight_decay = setup.weight_decay})
                     : train::make_sgd({.momentum = setup.momentum, .weight_decay = setup.weight_decay}),
      setup_);
  const int64_t total_steps = train::total_updates(
      *loader_, setup.num_epochs, setup.max_steps,
      setup.counts_from.empty() ? train::RunState{} : train::read_state(setup.counts_from));
  train::ScheduleOptions schedule = setup.schedule;
  schedule.total_steps = total_steps;
  schedule_ = train::make_schedule(schedule);
  std::filesystem::create_directories(output_dir);
  trainer_ = std::make_unique<train::Trainer>(
      train::TrainerParts{*engine_, *optimizer_, *schedule_, *loader_, eval_loader_.get(),
                          Log(group.rank(), group.size()), nullptr},
      trainer_options(setup_, output_dir, total_steps));
}

SmallTraining::~SmallTraining() = default;

train::TrainSummary SmallTraining::run(const std::filesystem::path& checkpoint) {
  if (!checkpoint.empty()) trainer_->resume(checkpoint);
  return trainer_->run();
}

double SmallTraining::loss_of(const SmallData& data) {
  const auto share = layout_.data_share();
  std::vector<Stream> streams;
  std::vector<int32_t> ids, labels;
  for (int64_t row = share.rank; row < data.rows().size(); row += share.size) {
    ids.clear();
    labels.clear();
    data.rows().read(row, ids, labels);
    const RowView view{ids, labels};
    streams.push_back(make_stream({&view, 1}));
    streams.back().is_training = false;
  }
  return engine_->evaluate(streams).mean();
}

// From the selection, not from the decoder: that has a part of them under a pipeline.
std::vector<std::string> SmallTraining::trained_names() {
  const tune::Selection selection = tune::select(decoder_.config(), setup_.selection);
  std::vector<std::string> names = selection.trainable_parameters;
  for (const std::string& module : selection.adapted_modules)
    for (const char* kind : {".lora_A.weight", ".lora_B.weight"})
      names.push_back("base_model.model." + module + kind);
  return names;
}

std::vector<at::Tensor> SmallTraining::trained_values() {
  std::vector<at::Tensor> values;
  engine_->with_whole_parameters([&](const parallel::WholeParameter& whole) {
    for (const std::string& name : trained_names()) values.push_back(whole(name).clone());
  });
  return values;
}

std::vector<double> history(const std::filesystem::path& output_dir, const std::string& value) {
  std::vector<double> values;
  for (const auto& entry : train::read_trainer_state(output_dir / "trainer_state.json").log_history)
    if (const auto found = entry.find(value)) values.push_back(*found);
  return values;
}

Finished train_on(const Grid& grid, SmallSetup setup, const SmallData& data,
                  const std::filesystem::path& output_dir, const std::filesystem::path& checkpoint) {
  setup.plan = grid.plan;
  Finished finished;
  test::run_ranks(grid.num_ranks, [&](const comm::Group& group) {
    SmallTraining training(setup, data, output_dir, group);
    training.run(checkpoint);
    auto values = training.trained_values();
    if (group.rank() != 0) return;
    finished.names = training.trained_names();
    finished.values = std::move(values);
    finished.traffic = training.engine().offload_traffic();
  });
  finished.losses = history(output_dir, "loss");
  finished.norms = history(output_dir, "grad_norm");
  return finished;
}

void expect_near(const Finished& found, const Finished& wanted) {
  ASSERT_EQ(found.losses.size(), wanted.losses.size());
  for (size_t i = 0; i < wanted.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i], wanted.losses[i], 1e-5 * wanted.losses[i]) << "update " << i + 1;
    EXPECT_NEAR(found.norms[i], wanted.norms[i], 1e-4 * wanted.norms[i]) << "update " << i + 1;
  }
  ASSERT_EQ(found.names, wanted.names);
  for (size_t i = 0; i < wanted.values.size(); ++i)
    EXPECT_LT((found.values[i] - wanted.values[i]).abs().max().item<double>(), 1e-5) << wanted.names[i];
}

void expect_same_bits(const Finished& found, const Finished& wanted) {
  EXPECT_EQ(found.losses, wanted.losses);
  EXPECT_EQ(found.norms, wanted.norms);
  ASSERT_EQ(found.names, wanted.names);
  for (size_t i = 0; i < wanted.values.size(); ++i)
    EXPECT_TRUE(at::equal(found.values[i], wanted.values[i])) << wanted.names[i];
}

}  // namespace duoka::testing
