// SPDX-License-Identifier: Apache-2.0
// One case from data to a saved model: a network that learns sin(x), trained with the mean squared error and
// SGD 0.01 on a GPU where there is one, else on the CPU; saved, loaded again, and asked.
//
//   worked_case [folder] [--cards N]
//
// The model goes to folder/model.pt (torch::save: a module), the state to go on from to folder/checkpoint-N
// (duoka's checkpoint: weights and optimizer state, readable on any number of ranks).
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>

#include <torch/torch.h>

#include "duoka/comm/collectives.h"
#include "duoka/comm/session.h"
#include "duoka/core/error.h"
#include "duoka/data/distributed_sampler.h"
#include "duoka/parallel/data_parallel.h"
#include "duoka/parallel/layout.h"
#include "duoka/train/checkpoint.h"
#include "duoka/train/optimizer.h"

namespace {

using duoka::parallel::DataParallel;

constexpr int64_t num_rows = 1000, batch_size = 20;
constexpr int num_epochs = 50;

/// The data set: x in [-3, 3], y = sin(x).
struct DataSet {
  torch::Tensor x, y;
  explicit DataSet(torch::Device device)
      : x(torch::linspace(-3, 3, num_rows, device).unsqueeze(1)), y(torch::sin(x)) {}
};

/// The model, as one writes it with libtorch.
struct NetworkImpl : torch::nn::Module {
  torch::nn::Linear hidden{register_module("hidden", torch::nn::Linear(1, 32))};
  torch::nn::Linear output{register_module("output", torch::nn::Linear(32, 1))};
  torch::Tensor forward(const torch::Tensor& x) { return output(torch::tanh(hidden(x))); }
};
TORCH_MODULE(Network);

/// Saves after the last update. Slots lie on the ranks that own them, so the checkpoint is made by all.
void save(const std::filesystem::path& folder, Network network, DataParallel& parallel, int64_t steps) {
  duoka::train::RunState state;
  state.step = steps;
  state.optimizer = "sgd";
  const auto checkpoint = duoka::train::save_checkpoint(folder, parallel.slots(), state, parallel.group());
  if (parallel.group().rank() == 0) {
    torch::save(network, folder / "model.pt");
    std::printf("saved model.pt and %s\n", checkpoint.filename().c_str());
  }
  duoka::comm::barrier(parallel.group());  // nobody reads before it is written
}

/// What somebody else does with the file: no ranks, no duoka.
void ask(const std::filesystem::path& folder, torch::Device device, Network trained) {
  Network loaded;
  torch::load(loaded, folder / "model.pt", device);
  const torch::NoGradGuard no_grad;
  const torch::Tensor x = torch::tensor({{-2.0F}, {0.5F}, {1.5F}}, device);
  const torch::Tensor y = loaded(x);
  if (!torch::equal(y, trained(x)))
    throw duoka::FormatError("model.pt: the loaded model answers differently");
  for (int64_t i = 0; i < x.size(0); ++i)
    std::printf("sin(%.1f) = %.3f, the loaded model says %.3f\n", x[i].item<double>(),
                std::sin(x[i].item<double>()), y[i].item<double>());
}

void run(const duoka::comm::Session& session, const std::filesystem::path& folder) {
  if (session.is_first()) std::filesystem::create_directories(folder);
  torch::manual_seed(1);
  const DataSet data(session.device());
  Network network;
  network->to(session.device());
  DataParallel::NamedTensors parameters;
  for (const auto& item : network->named_parameters()) parameters.emplace_back(item.key(), item.value());
  duoka::parallel::Layout layout({}, session.group());  // an empty plan: all ranks are data ranks
  DataParallel parallel(parameters, layout);
  const auto optimizer = duoka::train::make_sgd({});
  optimizer->prepare(parallel.slots());

  const auto share = layout.data_share();
  const duoka::data::DistributedSampler sampler(num_rows, batch_size, /*seed=*/1, share.rank, share.size);
  int64_t steps = 0;
  for (int epoch = 0; epoch < num_epochs; ++epoch) {
    for (const auto& batch : sampler.epoch(epoch)) {
      const torch::Tensor rows = torch::tensor(batch.rows).to(session.device());
      // One micro-batch of this rank, out of batch.num_rows rows of all ranks.
      parallel.forward_backward(1, batch.num_rows, [&](int64_t) {
        return torch::mse_loss(network(data.x.index_select(0, rows)), data.y.index_select(0, rows),
                               torch::Reduction::Sum);
      });
      parallel.finish_gradients();
      optimizer->step(parallel.slots(), 0.01);
      parallel.publish();
      ++steps;
    }
    const torch::NoGradGuard no_grad;
    const double loss = torch::mse_loss(network(data.x), data.y).item<double>();
    if (session.is_first() && (epoch + 1) % 5 == 0) std::printf("epoch %d loss %.6f\n", epoch + 1, loss);
  }
  save(folder, network, parallel, steps);
  if (session.is_first()) ask(folder, session.device(), network);
}

}  // namespace

int main(int argc, char** argv) {
  return duoka::comm::run_main(argc, argv, [&](const duoka::comm::Session& session) {
    run(session, argc > 1 ? argv[1] : "runs/worked_case");
  });
}
