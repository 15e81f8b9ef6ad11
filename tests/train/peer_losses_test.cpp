// SPDX-License-Identifier: Apache-2.0
// The first 20 losses of SmolLM2, LoRA and full, against a PyTorch loop over transformers and peft
// (tools/record/training.py).
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "duoka/model/decoder.h"
#include "duoka/parallel/engine.h"
#include "duoka/parallel/layout.h"
#include "duoka/train/gradients.h"
#include "duoka/train/optimizer.h"
#include "duoka/train/schedule.h"
#include "duoka/tune/peft_files.h"
#include "support/golden.h"

namespace duoka::testing {
namespace {

/// The recorder's start for A, bit for bit.
at::Tensor first_a(int64_t module, int64_t rank, int64_t width, int64_t seed) {
  at::Tensor a = at::empty({rank, width});
  const double bound = 2 / std::pow(static_cast<double>(width), 0.5);
  for (int64_t i = 0; i < a.numel(); ++i) {
    const auto hashed = static_cast<uint32_t>((i + module * 1'000'003 + seed) * 2654435761);
    a.data_ptr<float>()[i] = static_cast<float>((hashed / 4294967296.0 - 0.5) * bound);
  }
  return a;
}

class PeerLosses : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = asset("SmolLM2-135M-Instruct.Q4_1.gguf");
    if (!std::filesystem::exists(model_)) GTEST_SKIP() << "no " << model_ << "; scripts/demo fetches it";
    at::set_num_threads(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
    record_ = golden("training.json");
    for (const auto& row : record_.at("rows")) rows_.emplace_back(row);
  }

  /// Trains `decoder` on the recorded batches, comparing each update's loss and gradient norm.
  void expect_losses(model::Decoder& decoder, const io::Json& run) {
    const auto wanted = run.at("losses").get<std::vector<double>>();
    const auto norms = run.at("grad_norms").get<std::vector<double>>();
    const auto rates = run.at("learning_rates").get<std::vector<double>>();
    parallel::Layout layout({}, comm::Group());
    parallel::Engine engine(decoder.chain(), layout);
    const auto optimizer = train::make_adamw({.beta1 = record_.at("beta1"),
                                              .beta2 = record_.at("beta2"),
                                              .epsilon = record_.at("epsilon"),
                                              .weight_decay = record_.at("weight_decay")});
    const auto schedule = train::make_schedule({.type = record_.at("lr_scheduler_type"),
                                                .learning_rate = run.at("learning_rate"),
                                                .warmup_steps = record_.at("warmup_steps"),
                                                .total_steps = static_cast<int64_t>(wanted.size())});
    optimizer->prepare(engine.slots());
    for (size_t step = 0; step < wanted.size(); ++step) {
      const std::vector<Stream> micro{batch(step)};
      const ExactSum loss_sum = engine.forward_backward(micro, micro[0].num_trained);
      engine.finish_gradients();
      const auto found =
          train::sum_loss_and_norm(loss_sum, micro[0].num_trained, engine.slots(), engine.group());
      const double rate = schedule->learning_rate(static_cast<int64_t>(step));
      train::clip_gradients(engine.slots(), found.norm, record_.at("max_grad_norm"));
      optimizer->step(engine.slots(), rate);
      engine.publish();
      EXPECT_NEAR(found.loss, wanted[step], 1e-4 * wanted[step]) << "step " << step + 1;
      EXPECT_NEAR(found.norm, norms[step], 1e-3 * norms[step]) << "step " << step + 1;
      EXPECT_NEAR(rate, rates[step], 1e-9 * rates[1]) << "step " << step + 1;
      worst_ = std::max(worst_, std::abs(found.loss / wanted[step] - 1));
    }
    RecordProperty("worst_relative_difference", std::to_string(worst_));
    std::printf("worst relative difference of %zu losses: %.2g\n", wanted.size(), worst_);
  }

  std::filesystem::path model_;
  io::Json record_;

 private:
  Stream batch(size_t step) const {
    const auto count = record_.at("rows_per_step").get<size_t>();
    std::vector<RowView> views;
    for (size_t i = step * count; i < (step + 1) * count; ++i) views.push_back(rows_.at(i).view());
    return make_stream(views);
  }

  std::vector<Row> rows_;
  double worst_ = 0;
};

TEST_F(PeerLosses, Lora) {
  const io::Json& run = record_.at("runs").at("lora");
  const tune::LoraConfig lora{.rank = run.at("rank"), .alpha = run.at("alpha")};
  const TemporaryFolder folder;
  {
    // An adapter with the recorder's A, as a folder in peft's form, to train on from.
    model::Decoder decoder = model::Decoder::load(model_);
    const auto selection = tune::select(decoder.config(), {});
    tune::apply_selection(decoder, selection, lora, 0);
    int64_t module = 0;
    for (Parameter* parameter : decoder.parameters())
      if (parameter->name.find("lora_A") != std::string::npos) {
        const auto shape = parameter->value.sizes();
        parameter->value.copy_(first_a(module++, shape[0], shape[1], record_.at("seed")));
      }
    tune::write_peft_adapter(folder.path(), decoder, selection, lora, model_.string());
  }
  model::Decoder decoder = model::Decoder::load(model_);
  tune::apply_adapter(decoder, tune::read_peft_adapter(folder.path(), decoder.config()), true);
  expect_losses(decoder, run);
}

TEST_F(PeerLosses, Full) {
  model::Decoder decoder = model::Decoder::load(model_);
  tune::apply_selection(
      decoder, tune::select(decoder.config(), {.finetuning_type = tune::FinetuningType::full}), {}, 0);
  expect_losses(decoder, record_.at("runs").at("full"));
}

}  // namespace
}  // namespace duoka::testing
