// SPDX-License-Identifier: Apache-2.0
// A chain of torch::nn modules, with data parallelism or as a pipeline; docs/library.md goes through it.
//
//   chain [--cards N]              every rank has all layers and its share of each batch
//   chain pipeline --cards 2       each rank has half of the layers and the whole batch
//
// The losses printed are the same, up to the rounding of sums.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

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

using duoka::Stream;
using duoka::parallel::AutogradLayer;
using duoka::parallel::Layout;
using duoka::parallel::MeanSquaredError;

constexpr int64_t num_rows = 256, num_inputs = 20, width = 64, batch_size = 32, micro_size = 8;

/// Any torch::nn module that takes a tensor and gives a tensor, as a layer.
template <class Module>
std::unique_ptr<AutogradLayer> make_layer(const std::string& name, Module module, at::Device device) {
  module->to(device);
  AutogradLayer::NamedTensors parameters;
  for (const auto& item : module->named_parameters())
    parameters.emplace_back(name + "." + item.key(), item.value());
  const auto forward = [module](const at::Tensor& x, const Stream&) mutable { return module->forward(x); };
  return std::make_unique<AutogradLayer>(forward, parameters);
}

/// What this rank has of the network: layers 0, 1, 2, and the objective, which counts as layer 3.
duoka::Chain make_chain(const Layout& layout, const torch::Tensor& inputs, const torch::Tensor& wanted) {
  const at::Device device = inputs.device();
  const auto look_up = [inputs](const at::Tensor&, const Stream& batch) {
    return inputs.index_select(0, batch.ids);
  };
  torch::nn::Sequential first(torch::nn::Linear(num_inputs, width), torch::nn::Tanh());
  torch::nn::Linear second(width, 1);
  duoka::Chain chain;
  if (layout.has_layer(0))
    chain.layers.push_back(std::make_unique<AutogradLayer>(look_up, AutogradLayer::NamedTensors{}));
  if (layout.has_layer(1)) chain.layers.push_back(make_layer("first", first, device));
  if (layout.has_layer(2)) chain.layers.push_back(make_layer("second", second, device));
  if (layout.has_layer(3))
    chain.objective = std::make_unique<MeanSquaredError>(
        [wanted](const Stream& batch) { return wanted.index_select(0, batch.ids); });
  return chain;
}

/// `rows` as micro-batches of micro_size rows, the last of what is left.
std::vector<Stream> cut(std::span<const int64_t> rows, at::Device device) {
  std::vector<Stream> micro;
  for (size_t begin = 0; begin < rows.size(); begin += micro_size) {
    const size_t count = std::min<size_t>(micro_size, rows.size() - begin);
    micro.push_back(duoka::make_samples(rows.subspan(begin, count), device));
  }
  return micro;
}

void train(const duoka::comm::Session& session, bool is_pipeline) {
  torch::manual_seed(1);
  const torch::Tensor inputs = torch::randn({num_rows, num_inputs}).to(session.device());
  const torch::Tensor wanted = torch::sin(inputs.sum(1, /*keepdim=*/true));

  Layout layout({.pipeline = is_pipeline ? 2 : 1}, session.group());
  layout.share_layers({.costs = {0, num_inputs, 1, 0}, .width = width});
  duoka::Chain chain = make_chain(layout, inputs, wanted);
  const auto engine = duoka::parallel::assemble(chain, layout);
  const auto optimizer = duoka::train::make_adamw({});
  optimizer->prepare(engine->slots());

  const auto share = layout.data_share();
  const duoka::data::DistributedSampler sampler(num_rows, batch_size, /*seed=*/1, share.rank, share.size);
  for (int epoch = 0; epoch < 20; ++epoch) {
    double sum = 0;
    for (const auto& batch : sampler.epoch(epoch)) {
      const std::vector<Stream> micro = cut(batch.rows, session.device());
      const auto loss_sum = engine->forward_backward(micro, batch.num_rows);  // of all ranks
      engine->finish_gradients();                                             // waits for their sums
      const auto [loss, norm] =
          duoka::train::sum_loss_and_norm(loss_sum, batch.num_rows, engine->slots(), engine->group());
      duoka::train::clip_gradients(engine->slots(), norm, /*max_norm=*/1);
      optimizer->step(engine->slots(), /*learning_rate=*/0.01);
      engine->publish();  // layers see the new weights
      sum += loss * static_cast<double>(batch.num_rows);
    }
    if (session.is_first()) std::printf("epoch %d loss %.6f\n", epoch + 1, sum / num_rows);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_pipeline = argc > 1 && std::string(argv[1]) == "pipeline";
  return duoka::comm::run_main(argc, argv, [&](const auto& session) { train(session, is_pipeline); });
}
