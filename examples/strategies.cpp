// SPDX-License-Identifier: Apache-2.0
// Choices of a training, side by side: the largest micro-batch that fits a given memory, found by trying,
// while the batch stays what it is by accumulation; accumulation against the batch in one piece (the same
// weights); the schedules of the learning rate, and where a short training ends with each.
//
//   strategies [--cards N]
#include <algorithm>
#include <cstdio>
#include <memory>

#include <torch/torch.h>

#include "duoka/comm/collectives.h"
#include "duoka/comm/session.h"
#include "duoka/core/samples.h"
#include "duoka/data/distributed_sampler.h"
#include "duoka/parallel/assemble.h"
#include "duoka/parallel/autograd_layer.h"
#include "duoka/parallel/mean_squared_error.h"
#include "duoka/train/optimizer.h"
#include "duoka/train/schedule.h"

namespace {

using duoka::Stream;
using duoka::comm::Session;
using duoka::parallel::AutogradLayer;
using duoka::train::ScheduleOptions;

constexpr int64_t num_rows = 1024, width = 64, batch_size = 256, num_epochs = 10;
constexpr int64_t memory_bytes = 64 << 10;  // what the activations of one micro-batch may take

duoka::Chain make_chain(at::Device device) {
  torch::manual_seed(1);  // the same network each time
  const torch::Tensor inputs = torch::randn({num_rows, width}).to(device);
  const torch::Tensor outputs = torch::sin(inputs.narrow(1, 0, 8));
  duoka::Chain chain;
  chain.layers.push_back(std::make_unique<AutogradLayer>(
      [inputs](const at::Tensor&, const Stream& batch) { return inputs.index_select(0, batch.ids); },
      AutogradLayer::NamedTensors{}));
  for (const int64_t num_out : {width, int64_t{8}}) {
    torch::nn::Linear linear(width, num_out);
    linear->to(device);
    const std::string name = "linear" + std::to_string(chain.layers.size());
    chain.layers.push_back(std::make_unique<AutogradLayer>(
        [linear](const at::Tensor& x, const Stream&) mutable { return torch::tanh(linear(x)); },
        AutogradLayer::NamedTensors{{name + ".weight", linear->weight}, {name + ".bias", linear->bias}}));
  }
  chain.objective = std::make_unique<duoka::parallel::MeanSquaredError>(
      [outputs](const Stream& batch) { return outputs.index_select(0, batch.ids); });
  return chain;
}

/// A micro-batch of this size, forward: what its layers keep for their backward.
bool fits(duoka::Chain& chain, int64_t size, at::Device device) {
  const std::vector<int64_t> rows(static_cast<size_t>(size));
  try {
    const Stream micro = duoka::make_samples(rows, device);
    duoka::Saved saved;
    at::Tensor x;
    for (const auto& layer : chain.layers) x = layer->forward(x, micro, saved);
    return saved.num_bytes() <= memory_bytes;
  } catch (const c10::OutOfMemoryError&) {  // a card that has less than was thought
    return false;
  }
}

/// Doubles while it fits. All ranks take what fits on each.
size_t find_micro_batch(const Session& session) {
  duoka::Chain chain = make_chain(session.device());
  int64_t size = 1;
  while (2 * size <= batch_size && fits(chain, 2 * size, session.device())) size *= 2;
  at::Tensor smallest = torch::tensor({size});
  duoka::comm::all_reduce(smallest, duoka::comm::Op::min, session.group());
  return static_cast<size_t>(smallest.item<int64_t>());
}

std::vector<Stream> cut(std::span<const int64_t> rows, size_t micro_size, at::Device device) {
  std::vector<Stream> micro;
  for (size_t i = 0; i < rows.size(); i += micro_size)
    micro.push_back(duoka::make_samples(rows.subspan(i, std::min(micro_size, rows.size() - i)), device));
  return micro;
}

struct Outcome {
  std::vector<double> rates;        ///< Of each update.
  double loss = 0;                  ///< Over all rows, at the end.
  std::vector<at::Tensor> weights;  ///< Each flat.
};

/// A short training: updates of batch_size rows, computed micro_size rows at a time; their gradients add up.
Outcome train(const Session& session, size_t micro_size, const ScheduleOptions& options) {
  duoka::Chain chain = make_chain(session.device());
  duoka::parallel::Layout layout({}, session.group());
  const auto engine = duoka::parallel::assemble(chain, layout);
  const auto optimizer = duoka::train::make_sgd({.momentum = 0.9});
  optimizer->prepare(engine->slots());
  const auto schedule = duoka::train::make_schedule(options);
  const auto share = layout.data_share();
  const duoka::data::DistributedSampler batches(num_rows, batch_size, /*seed=*/1, share.rank, share.size);
  const duoka::data::DistributedSampler everything(num_rows, num_rows, 1, share.rank, share.size);
  const auto all = cut(everything.epoch(0)[0].rows, micro_size, session.device());
  Outcome outcome;
  for (int64_t epoch = 0; epoch < num_epochs; ++epoch) {
    for (const auto& batch : batches.epoch(epoch)) {
      outcome.rates.push_back(schedule->learning_rate(static_cast<int64_t>(outcome.rates.size())));
      engine->forward_backward(cut(batch.rows, micro_size, session.device()), batch.num_rows);
      engine->finish_gradients();
      optimizer->step(engine->slots(), outcome.rates.back());
      engine->publish();
    }
    outcome.loss = engine->evaluate(all).mean();
    schedule->observe(outcome.loss);  // for reduce_lr_on_plateau
  }
  for (const auto* parameter : chain.parameters()) outcome.weights.push_back(parameter->value.flatten());
  return outcome;
}

ScheduleOptions schedule_of(const std::string& type) {
  ScheduleOptions options{.type = type, .learning_rate = 0.1, .warmup_steps = 4, .total_steps = 40};
  if (type == "cosine_with_min_lr") options.min_lr = 0.01;
  if (type == "cosine_with_restarts") options.num_cycles = 2;
  if (type == "reduce_lr_on_plateau") options.patience = 0, options.threshold = 0.3;
  if (type == "warmup_stable_decay") options.num_decay_steps = 10;
  return options;
}

void compare(const Session& session) {
  const auto micro_size = find_micro_batch(session);
  const Outcome pieces = train(session, micro_size, schedule_of("constant"));
  const Outcome whole = train(session, batch_size, schedule_of("constant"));
  const auto difference = (torch::cat(whole.weights) - torch::cat(pieces.weights)).abs().max().item<double>();
  if (session.is_first()) {
    std::printf("micro-batch %zu fits %ld KiB; in one piece the weights differ by %.1e at most\n", micro_size,
                memory_bytes >> 10, difference);
    std::printf("%-22s rate at update 0, 4, 20 and 39              final loss\n", "schedule");
  }
  for (const std::string& type : duoka::train::schedule_types()) {
    const Outcome outcome = train(session, micro_size, schedule_of(type));
    if (!session.is_first()) continue;
    std::printf("%-22s", type.c_str());
    for (const size_t step : {0U, 4U, 20U, 39U}) std::printf(" %10.6f", outcome.rates[step]);
    std::printf(" %12.5f\n", outcome.loss);
  }
}

}  // namespace

int main(int argc, char** argv) { return duoka::comm::run_main(argc, argv, compare); }
