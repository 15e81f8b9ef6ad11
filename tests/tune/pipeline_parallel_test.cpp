// SPDX-License-Identifier: Apache-2.0
// Ranks that hold some layers each write the files that one rank writes.
#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include "duoka/core/files.h"
#include "duoka/model/export.h"
#include "duoka/parallel/assemble.h"
#include "duoka/tune/peft_files.h"
#include "support/golden.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka::tune {
namespace {

using model::Decoder;
using testing::fixture;

constexpr uint64_t seed = 11;
using Write = std::function<void(const std::filesystem::path&, Decoder&, const parallel::WholeParameter&)>;

/// What `write` makes of the base under `tune` on `plan`'s ranks.
void write_on_ranks(const std::filesystem::path& base, const parallel::Plan& plan, int num_ranks,
                    const std::function<void(Decoder&)>& tune, const Write& write,
                    const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  duoka::test::run_ranks(num_ranks, [&](const comm::Group& group) {
    parallel::Layout layout(plan, group);
    layout.share_layers(parallel::stack_of(model::read_config(base)));
    Decoder decoder = Decoder::load(base, {.log = Log(1, 2),
                                           .tensor_axis = layout.tensor_axis(),
                                           .context_axis = layout.context_axis(),
                                           .layers = layout.layers()});
    tune(decoder);
    const auto engine = parallel::assemble(decoder.chain(), layout);
    engine->with_whole_parameters(
        [&](const parallel::WholeParameter& whole) { write(folder, decoder, whole); });
  });
}

void expect_same_files(const std::filesystem::path& base, const std::function<void(Decoder&)>& tune,
                       const Write& write, const std::vector<std::string>& files) {
  testing::TemporaryFolder folder;
  write_on_ranks(base, {}, 1, tune, write, folder / "one");
  write_on_ranks(base, {.pipeline = 2}, 2, tune, write, folder / "two");
  write_on_ranks(base, {.pipeline = 2}, 4, tune, write, folder / "data");
  write_on_ranks(base, {.tensor = 2, .pipeline = 2}, 4, tune, write, folder / "tensor");
  for (const std::string name : {"two", "data", "tensor"})
    for (const std::string& file : files) {
      const std::string wanted = read_text_file(folder / "one" / file);
      EXPECT_FALSE(wanted.empty()) << file;
      EXPECT_TRUE(read_text_file(folder / name / file) == wanted) << name << ": " << file;
    }
}

const std::vector<std::string> adapter_files = {"adapter_model.safetensors", "adapter_config.json"};

TEST(PipelineFiles, AFreshAdapterWithSavedModules) {
  for (const std::string name : {"tiny-llama", "tiny-llama-tied"}) {
    const auto base = fixture("cases/models/" + name);
    const Selection selection = select(model::read_config(base),
                                       {.lora_target = "all", .additional_target = {"embed_tokens", "norm"}});
    const LoraConfig lora{.rank = 3, .alpha = 5, .use_rslora = true};
    expect_same_files(
        base, [&](Decoder& decoder) { apply_selection(decoder, selection, lora, seed); },
        [&](const auto& folder, Decoder& decoder, const auto& whole) {
          write_peft_adapter(folder, decoder, selection, lora, "base", whole);
        },
        adapter_files);
  }
}

TEST(PipelineFiles, AnAdapterWhoseModulesHaveRanksOfTheirOwn) {
  const auto record = testing::golden("peft_adapters.json");
  const std::string name = "rslora_patterns";
  const auto base = fixture("models") / record.at("cases").at(name).at("model").get<std::string>();
  const auto adapter = read_peft_adapter(fixture("golden/peft") / name, model::read_config(base));
  std::map<std::string, LoraConfig> own;
  for (const auto& module : adapter.modules) own[module.name] = module.lora;
  expect_same_files(
      base, [&](Decoder& decoder) { apply_adapter(decoder, adapter, true, seed); },
      [&](const auto& folder, Decoder& decoder, const auto& whole) {
        write_peft_adapter(folder, decoder, adapter.selection, adapter.config.lora, "base", whole, own);
      },
      adapter_files);
}

TEST(PipelineFiles, AWholeModel) {
  for (const std::string name : {"tiny-llama", "tiny-llama-tied"}) {
    const auto base = fixture("cases/models/" + name);
    expect_same_files(
        base, [](Decoder& decoder) { decoder.set_trainable([](const auto&) { return true; }); },
        [](const auto& folder, Decoder& decoder, const auto& whole) {
          const auto dtype = [&](const std::string&) { return decoder.dtype(); };
          model::export_folder(folder, decoder.config(), {dtype, whole}, {.log = Log(1, 2)});
        },
        {"model.safetensors", "config.json"});
  }
}

/// Gradients of one update of five micro-batches on two ranks, by name.
std::map<std::string, at::Tensor> gradients_of(parallel::PipelineSchedule schedule, FinetuningType type) {
  const auto base = fixture("cases/models/tiny-llama-tied");
  std::vector<Stream> micro;
  for (int32_t i = 0; i < 5; ++i) {
    const std::vector<int32_t> first{3 + i, 7, 30 + 2 * i, 11, 5}, second{9, 40 - i, 2};
    const std::vector<RowView> rows{{first, first, static_cast<uint64_t>(2 * i)},
                                    {second, second, static_cast<uint64_t>(2 * i + 1)}};
    micro.push_back(make_stream(rows));
  }
  int64_t trained = 0;
  for (const Stream& stream : micro) trained += stream.num_trained;
  std::map<std::string, at::Tensor> gradients;
  std::mutex mutex;
  duoka::test::run_ranks(2, [&](const comm::Group& group) {
    parallel::Layout layout({.pipeline = 2, .schedule = schedule}, group);
    layout.share_layers(parallel::stack_of(model::read_config(base)));
    Decoder decoder = Decoder::load(base, {.log = Log(1, 2), .layers = layout.layers()});
    apply_selection(decoder, select(decoder.config(), {.finetuning_type = type}), {.dropout = 0.1}, seed);
    const auto engine = parallel::assemble(decoder.chain(), layout);
    engine->forward_backward(micro, trained);
    engine->finish_gradients();
    const std::lock_guard lock(mutex);
    for (const parallel::Slot& slot : engine->slots()) gradients[slot.parameter->name] = slot.grad.clone();
  });
  return gradients;
}

// Weights' gradients are put off, but added in the same order.
TEST(ZeroBubble, GivesTheBitsOf1F1B) {
  for (const auto type : {FinetuningType::full, FinetuningType::lora}) {
    const auto wanted = gradients_of(parallel::PipelineSchedule::one_forward_one_backward, type),
               found = gradients_of(parallel::PipelineSchedule::zero_bubble, type);
    ASSERT_GT(wanted.size(), 10u);
    ASSERT_EQ(found.size(), wanted.size());
    for (const auto& [name, gradient] : wanted) {
      EXPECT_TRUE(at::equal(found.at(name), gradient)) << name;
      const bool is_zero_at_first = name.find("lora_A") != name.npos;
      EXPECT_NE(gradient.ne(0).any().item<bool>(), is_zero_at_first) << name;
    }
  }
}

}  // namespace
}  // namespace duoka::tune
