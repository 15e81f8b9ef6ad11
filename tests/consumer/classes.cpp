// SPDX-License-Identifier: Apache-2.0
// A program of somebody else with an objective of its own: docs/library.md shows it.
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#include <torch/torch.h>

#include "duoka/comm/session.h"
#include "duoka/core/samples.h"
#include "duoka/parallel/assemble.h"
#include "duoka/parallel/autograd_layer.h"
#include "duoka/train/gradients.h"
#include "duoka/train/optimizer.h"

namespace {

using duoka::Stream;
using duoka::parallel::AutogradLayer;

/// Cross-entropy of x [samples, classes], summed over samples; its gradient by autograd.
class CrossEntropy final : public duoka::Objective {
 public:
  explicit CrossEntropy(torch::Tensor classes) : classes_(std::move(classes)) {}

  std::vector<duoka::Parameter*> parameters() override { return {}; }
  double loss_sum(const at::Tensor& x, const Stream& batch) override { return sum(x, batch).item<double>(); }
  Share loss_and_gradient(const at::Tensor& x, const Stream& batch, double scale) override {
    const torch::AutoGradMode with_gradients(true);
    const at::Tensor leaf = x.detach().requires_grad_();
    const at::Tensor loss = sum(leaf, batch);
    (loss * scale).backward();
    return {loss.item<double>(), leaf.grad()};
  }

 private:
  at::Tensor sum(const at::Tensor& x, const Stream& batch) const {
    return torch::nn::functional::cross_entropy(
        x, classes_.index_select(0, batch.ids),
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  }
  torch::Tensor classes_;  // of each sample, [all samples] int64
};

/// Points of the plane by their quadrant, by a linear layer, with ZeRO-1.
void train(const duoka::comm::Session& session) {
  torch::manual_seed(1);
  const torch::Tensor points = torch::randn({64, 2}).to(session.device());
  const torch::Tensor quadrants = points.select(1, 0).gt(0).to(torch::kLong) * 2 + points.select(1, 1).gt(0);
  torch::nn::Linear linear(2, 4);
  linear->to(session.device());
  duoka::Chain chain;
  chain.layers.push_back(std::make_unique<AutogradLayer>(
      [linear, points](const at::Tensor&, const Stream& batch) mutable {
        return linear(points.index_select(0, batch.ids));
      },
      AutogradLayer::NamedTensors{{"weight", linear->weight}, {"bias", linear->bias}}));
  chain.objective = std::make_unique<CrossEntropy>(quadrants);
  duoka::parallel::Layout layout({.zero_stage = 1}, session.group());
  const auto engine = duoka::parallel::assemble(chain, layout);
  const auto optimizer = duoka::train::make_sgd({.momentum = 0.9});
  optimizer->prepare(engine->slots());
  std::vector<int64_t> own(static_cast<size_t>(64 / session.group().size()));
  std::iota(own.begin(), own.end(), session.group().rank() * static_cast<int64_t>(own.size()));
  const std::vector<Stream> micro{duoka::make_samples(own, session.device())};
  double loss = 0;
  for (int step = 0; step < 200; ++step) {
    const auto loss_sum = engine->forward_backward(micro, 64);
    engine->finish_gradients();
    loss = duoka::train::sum_loss_and_norm(loss_sum, 64, engine->slots(), engine->group()).loss;
    optimizer->step(engine->slots(), 0.1);
    engine->publish();
  }
  if (session.is_first()) std::printf("loss %.3f\n", loss);
}

}  // namespace

int main(int argc, char** argv) { return duoka::comm::run_main(argc, argv, train); }
