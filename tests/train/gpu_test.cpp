// SPDX-License-Identifier: Apache-2.0
// What a card must give: the numbers of the CPU. Skips where there is no card.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/offload_store.h"
#include "core/tensor_bytes.h"
#include "duoka/comm/collectives.h"
#include "duoka/comm/world.h"
#include "duoka/core/dropout.h"
#include "duoka/model/decoder.h"
#include "duoka/parallel/engine.h"
#include "duoka/parallel/layout.h"
#include "duoka/train/gradients.h"
#include "duoka/train/optimizer.h"
#include "duoka/tune/peft_files.h"
#include "support/golden.h"

namespace duoka::train {
namespace {

class OnCard : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA card, or a build without CUDA";
  }
};

struct Outcome {
  std::vector<double> losses, norms;
};

/// Three updates of a LoRA with dropout on tiny-llama.
Outcome train_on(at::Device device, at::ScalarType dtype, const parallel::EngineOptions& options = {}) {
  model::Decoder decoder =
      model::Decoder::load(testing::fixture("cases/models/tiny-llama"), {dtype, device, Log(1, 2)});
  tune::SelectionOptions what;
  tune::apply_selection(decoder, tune::select(decoder.config(), what), {4, 8, 0.1, false}, 7);
  parallel::Layout layout({}, comm::Group());
  parallel::Engine engine(decoder.chain(), layout, options);
  const auto optimizer = make_adamw({});
  optimizer->prepare(engine.slots());

  const auto rows = io::read_json_file(testing::fixture("cases/rows7_expected.json")).at("rows");
  std::vector<testing::Row> some;
  for (size_t i = 0; i < 4; ++i) some.emplace_back(rows[i]);
  std::vector<RowView> views;
  for (size_t i = 0; i < some.size(); ++i) views.push_back({some[i].ids, some[i].labels, i + 1});
  const std::vector<Stream> streams{make_stream(views, device)};

  Outcome outcome;
  for (int step = 0; step < 3; ++step) {
    const ExactSum loss_sum = engine.forward_backward(streams, streams[0].num_trained);
    engine.finish_gradients();
    const LossAndNorm sums =
        sum_loss_and_norm(loss_sum, streams[0].num_trained, engine.slots(), engine.group());
    optimizer->step(engine.slots(), 1e-2);
    engine.publish();
    outcome.losses.push_back(sums.loss);
    outcome.norms.push_back(sums.norm);
  }
  return outcome;
}

void expect_near(const Outcome& card, const Outcome& cpu, double relative) {
  for (size_t i = 0; i < cpu.losses.size(); ++i) {
    EXPECT_NEAR(card.losses[i], cpu.losses[i], relative * cpu.losses[i]) << "loss of update " << i + 1;
    EXPECT_NEAR(card.norms[i], cpu.norms[i], 10 * relative * cpu.norms[i]) << "norm of update " << i + 1;
  }
}

TEST_F(OnCard, TrainsAsTheCpuInF32) {
  expect_near(train_on(at::Device(at::kCUDA, 0), at::kFloat), train_on(at::kCPU, at::kFloat), 1e-4);
}

TEST_F(OnCard, TrainsNearTheCpuInBf16) {
  expect_near(train_on(at::Device(at::kCUDA, 0), at::kBFloat16), train_on(at::kCPU, at::kFloat), 2e-2);
}

TEST_F(OnCard, TrainsAsWithoutOffload) {
  const at::Device card(at::kCUDA, 0);
  for (const bool recompute : {false, true}) {
    const parallel::EngineOptions out{
        .recompute = recompute, .offload_activations = true, .offload_optimizer = true};
    expect_near(train_on(card, at::kFloat, out), train_on(card, at::kFloat, {.recompute = recompute}), 1e-5);
  }
}

TEST_F(OnCard, OffloadedBytesComeBack) {
  const auto store = make_offload_store(at::Device(at::kCUDA, 0), {});
  const auto numbers = [](int64_t i) { return at::arange(100'000, at::kDouble).add_(i).to(at::kCUDA); };
  std::vector<std::unique_ptr<OffloadPlace>> places;
  for (int64_t i = 0; i < 50; ++i) {
    places.push_back(store->reserve(800'000));
    places.back()->put(bytes_of(numbers(i)));  // whose memory is another's at once
  }
  for (int64_t i = 49; i >= 0; --i) {
    if (i > 0) places[static_cast<size_t>(i - 1)]->fetch();
    EXPECT_TRUE(at::equal(places[static_cast<size_t>(i)]->take(), bytes_of(numbers(i)))) << i;
  }
}

TEST_F(OnCard, DropsTheSameUnits) {
  const auto rows = io::read_json_file(testing::fixture("cases/rows7_expected.json")).at("rows");
  const testing::Row row(rows[0]);
  const RowView view{row.ids, row.labels, 42};
  const Dropout dropout(0.3, 99);
  const at::Tensor cpu = dropout.kept(make_stream(std::span(&view, 1)), 64);
  const at::Tensor card = dropout.kept(make_stream(std::span(&view, 1), at::Device(at::kCUDA, 0)), 64);
  EXPECT_TRUE(at::equal(card.cpu(), cpu));
}

TEST_F(OnCard, GreedyRepliesAreThoseOfTheCpu) {
  const at::Tensor ids = at::tensor({0, 3, 309, 203, 308, 282, 267, 4}, at::kLong);
  const auto logits = [&](at::Device device) {
    model::Decoder decoder =
        model::Decoder::load(testing::fixture("cases/models/tiny-llama"), {at::kFloat, device, Log(1, 2)});
    auto cache = decoder.make_cache();
    return decoder.logits_cached(ids.to(device), cache).cpu();
  };
  EXPECT_TRUE(at::allclose(logits(at::Device(at::kCUDA, 0)), logits(at::kCPU), 1e-4, 1e-4));
}

}  // namespace
}  // namespace duoka::train
