// SPDX-License-Identifier: Apache-2.0
// What goes out of memory and comes back changes no bit of a training, in any layout.
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/io/safetensors.h"
#include "train/small_training.h"

namespace duoka::testing {
namespace {

void expect_same_files(const std::filesystem::path& found, const std::filesystem::path& wanted) {
  const auto names = names_in(wanted);
  EXPECT_EQ(names_in(found), names);
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors")) continue;
    EXPECT_TRUE(read_text_file(found / name) == read_text_file(wanted / name)) << name;
  }
}

/// tiny-llama (untied or tied) with `num_layers` layers, which repeat its two.
std::filesystem::path deeper_model(const std::filesystem::path& folder, const std::string& name,
                                   int num_layers) {
  const auto from = fixture("cases/models") / name;
  std::filesystem::copy(from, folder);
  const std::string config = read_text_file(from / "config.json"), key = "\"num_hidden_layers\": ";
  const size_t end = config.find(key) + key.size();
  write_file(folder / "config.json", text(config.substr(0, end), num_layers, config.substr(end + 1)));
  const auto file = io::SafetensorsFile::open(from / "model.safetensors");
  std::vector<io::TensorSpec> specs;
  std::map<std::string, const io::TensorView*> sources;
  const auto add = [&](const io::TensorView& view, const std::string& as) {
    specs.push_back({as, view.dtype, view.shape});
    sources[as] = &view;
  };
  const std::string layer = "model.layers.";
  for (const io::TensorView& view : file.tensors()) {
    if (!view.name.starts_with(layer)) add(view, view.name);
    for (int i = 0; i < num_layers; ++i)
      if (view.name.starts_with(text(layer, i % 2, ".")))
        add(view, text(layer, i, view.name.substr(layer.size() + 1)));
  }
  io::SafetensorsWriter writer(folder / "model.safetensors", specs);
  for (const io::TensorSpec& spec : writer.tensors()) writer.write(spec.name, sources.at(spec.name)->bytes);
  writer.commit();
  return folder;
}

enum class Way { full_f32, full_bf16, lora_bf16 };

/// Three updates of four micro-batches, one checkpoint in between.
SmallSetup setup_of(Way way, bool recompute, const std::filesystem::path& folder) {
  SmallSetup setup = lora_setup(0.1);
  setup.selection = {.lora_target = "all"};
  const bool is_lora = way == Way::lora_bf16;
  setup.model = deeper_model(folder / "model", is_lora ? "tiny-llama" : "tiny-llama-tied", 6);
  if (!is_lora) {
    setup.selection = {.finetuning_type = tune::FinetuningType::full};
    setup.schedule.learning_rate = 1e-3;
  }
  setup.dtype = way == Way::full_f32 ? at::kFloat : at::kBFloat16;
  setup.recompute = recompute;
  setup.weight_decay = 0.1;
  setup.max_grad_norm = 1;
  setup.rows_per_stream = 6;
  setup.streams_per_update = 4;
  setup.max_steps = 3;
  setup.save = {train::Interval::Unit::steps, 2};
  return setup;
}

SmallSetup with_offload(SmallSetup setup) {
  setup.offload_activations = setup.offload_optimizer = true;
  return setup;
}

class Offload : public ::testing::TestWithParam<std::tuple<Grid, Way, bool>> {};

TEST_P(Offload, ChangesNoBit) {
  const auto& [grid, way, recompute] = GetParam();
  const TemporaryFolder folder;
  const SmallData data(write_rows(folder / "rows.jsonl", 72));
  const SmallSetup setup = setup_of(way, recompute, folder.path());
  const Finished wanted = train_on(grid, setup, data, folder / "in");
  EXPECT_EQ(wanted.traffic.bytes_out, 0);
  const Finished found = train_on(grid, with_offload(setup), data, folder / "out");
  expect_same_bits(found, wanted);
  EXPECT_GT(found.traffic.bytes_out, 100'000);
  expect_same_files(folder / "out/checkpoint-2", folder / "in/checkpoint-2");
  EXPECT_EQ(names_in(folder / "out"), names_in(folder / "in"));
}

class OffloadResume : public ::testing::TestWithParam<Grid> {};

TEST_P(OffloadResume, CheckpointsGoOnWithAndWithout) {
  const Grid& grid = GetParam();
  const TemporaryFolder folder;
  const SmallData data(write_rows(folder / "rows.jsonl", 72));
  const SmallSetup setup = setup_of(Way::full_bf16, /*recompute=*/false, folder.path());
  const Finished wanted = train_on(grid, setup, data, folder / "in");
  const Finished out = train_on(grid, with_offload(setup), data, folder / "out", folder / "in/checkpoint-2");
  expect_same_bits(out, wanted);
  train_on(grid, with_offload(setup), data, folder / "out");
  expect_same_bits(train_on(grid, setup, data, folder / "in", folder / "out/checkpoint-2"), wanted);
}

std::vector<Grid> layouts() {
  std::vector<Grid> all = {{"one", 1, {}}};
  for (const int stage : {0, 1, 2, 3}) all.push_back({text("zero", stage), 2, {.zero_stage = stage}});
  all.push_back({"tensor", 2, {.tensor = 2}});
  all.push_back({"context", 2, {.context = 2}});
  using parallel::PipelineSchedule;
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward,
                              PipelineSchedule::interleaved, PipelineSchedule::zero_bubble}) {
    const int chunks = schedule == PipelineSchedule::interleaved ? 2 : 1;
    all.push_back({text("pipeline_", parallel::schedule_name(schedule)),
                   2,
                   {.pipeline = 2, .schedule = schedule, .chunks = chunks}});
  }
  return all;
}

std::string name_of(const Grid& grid, Way way) {
  return grid.name + (way == Way::full_f32    ? "_full_f32"
                      : way == Way::full_bf16 ? "_full_bf16"
                                              : "_lora_bf16");
}

const auto every_way = ::testing::Values(Way::full_f32, Way::full_bf16, Way::lora_bf16);
INSTANTIATE_TEST_SUITE_P(Grid, Offload,
                         ::testing::Combine(::testing::ValuesIn(layouts()), every_way, ::testing::Bool()),
                         [](const auto& test) {
                           return name_of(std::get<0>(test.param), std::get<1>(test.param)) +
                                  (std::get<2>(test.param) ? "_recompute" : "");
                         });
INSTANTIATE_TEST_SUITE_P(Grid, OffloadResume, ::testing::ValuesIn(layouts()),
                         [](const auto& test) { return test.param.name; });

/// An update moves each f32 number of the optimizer's once each way; in f32 masters are the values and stay.
TEST(OffloadTraffic, OfTheOptimizerIsItsBytesOnceEachWay) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const TemporaryFolder folder;
    const SmallData data(write_rows(folder / "rows.jsonl", 72));
    SmallSetup setup = setup_of(Way::full_f32, false, folder.path());
    setup.dtype = dtype;
    setup.offload_optimizer = true;
    setup.save = {};
    int64_t num_bytes = 0, updates = 0;
    std::vector<int64_t> out;
    setup.after_step = [&](std::span<const parallel::Slot> slots) {
      num_bytes = 0;
      for (const parallel::Slot& slot : slots)
        if (slot.master.nbytes() >= 4096)
          num_bytes += static_cast<int64_t>(slot.master.nbytes()) * (dtype == at::kFloat ? 2 : 3);
      ++updates;
    };
    SmallTraining training(setup, data, folder / "out");
    const auto start = training.engine().offload_traffic();
    training.run();
    const auto end = training.engine().offload_traffic();
    EXPECT_EQ(updates, 3);
    EXPECT_EQ(start.bytes_out, num_bytes);  // when it is made
    EXPECT_EQ(end.bytes_out - start.bytes_out, 3 * num_bytes);
    EXPECT_EQ(end.bytes_in - start.bytes_in, 3 * num_bytes);
  }
}

}  // namespace
}  // namespace duoka::testing
