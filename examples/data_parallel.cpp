// SPDX-License-Identifier: Apache-2.0
// Data parallelism: every rank holds the whole network and computes its share of each batch.
//
//   data_parallel               one rank
//   data_parallel --cards 2     two ranks of this machine: GPUs (NCCL) where there are, else CPU (Gloo)
//   torchrun --nproc-per-node 2 --no-python data_parallel     the same; or srun, or mpirun
//
// The losses printed are the same on any number of ranks, up to the rounding of sums.
#include <cstdio>
#include <memory>

#include <torch/torch.h>

#include "duoka/comm/session.h"
#include "duoka/core/samples.h"
#include "duoka/data/distributed_sampler.h"
#include "duoka/parallel/assemble.h"
#include "duoka/parallel/autograd_layer.h"
#include "duoka/parallel/mean_squared_error.h"
#include "duoka/train/gradients.h"
#include "duoka/train/optimizer.h"

namespace {

using duoka::parallel::AutogradLayer;

constexpr int64_t num_rows = 512, num_inputs = 1000, num_outputs = 10, batch_size = 32;
constexpr int num_epochs = 10;
constexpr double learning_rate = 0.01;

/// What is to be learned: outputs that are a linear function of the inputs. The same on every rank.
struct Data {
  torch::Tensor inputs, outputs;
};

Data make_data(torch::Device device) {
  torch::manual_seed(1);
  const torch::Tensor inputs = torch::randn({num_rows, num_inputs});
  const torch::Tensor rule = torch::randn({num_outputs, num_inputs}) / 10;
  return {inputs.to(device), inputs.matmul(rule.t()).to(device)};
}

/// The network as a chain of layers that an engine walks; any torch::nn::Module becomes one like this.
duoka::Chain make_chain(torch::nn::Linear linear, const Data& data) {
  duoka::Chain chain;
  chain.layers.push_back(std::make_unique<AutogradLayer>(
      [linear, inputs = data.inputs](const at::Tensor&, const duoka::Stream& batch) mutable {
        return linear->forward(inputs.index_select(0, batch.ids));
      },
      AutogradLayer::NamedTensors{{"linear.weight", linear->weight}, {"linear.bias", linear->bias}}));
  chain.objective = std::make_unique<duoka::parallel::MeanSquaredError>(
      [outputs = data.outputs](const duoka::Stream& batch) { return outputs.index_select(0, batch.ids); });
  return chain;
}

/// One update: each rank's share of the gradient, summed while it is computed, then the same step everywhere.
/// Returns the mean loss over the whole batch.
double update(duoka::parallel::Engine& engine, const duoka::train::Optimizer& optimizer,
              const duoka::data::DistributedSampler::Batch& batch, at::Device device) {
  const std::vector<duoka::Stream> micro{duoka::make_samples(batch.rows, device)};
  const auto loss_sum = engine.forward_backward(micro, batch.num_rows);
  engine.finish_gradients();
  const auto result =
      duoka::train::sum_loss_and_norm(loss_sum, batch.num_rows, engine.slots(), engine.group());
  optimizer.step(engine.slots(), learning_rate);
  engine.publish();
  return result.loss;
}

void train(const duoka::comm::Session& session) {
  const Data data = make_data(session.device());
  torch::nn::Linear linear(num_inputs, num_outputs);
  linear->to(session.device());
  duoka::Chain chain = make_chain(linear, data);

  duoka::parallel::Layout layout({}, session.group());  // an empty plan: all ranks are data ranks
  const auto engine = duoka::parallel::assemble(chain, layout);
  const auto optimizer = duoka::train::make_sgd({});
  optimizer->prepare(engine->slots());

  const auto share = layout.data_share();
  const duoka::data::DistributedSampler sampler(num_rows, batch_size, /*seed=*/1, share.rank, share.size);
  for (int epoch = 0; epoch < num_epochs; ++epoch) {
    double sum = 0;
    for (const auto& batch : sampler.epoch(epoch))
      sum += update(*engine, *optimizer, batch, session.device()) * static_cast<double>(batch.num_rows);
    if (session.is_first()) std::printf("epoch %d loss %.6f\n", epoch + 1, sum / num_rows);
  }
  if (session.is_first())
    std::printf("%d ranks, norm of the weights %.6f\n", session.group().size(),
                linear->weight.norm().item<double>());
}

}  // namespace

int main(int argc, char** argv) { return duoka::comm::run_main(argc, argv, train); }
