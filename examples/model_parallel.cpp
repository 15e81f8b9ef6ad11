// SPDX-License-Identifier: Apache-2.0
// Model parallelism: Linear(1000, 500), relu, Linear(500, 10) with its two parts on different cards, in two
// ways.
//
//   model_parallel [--cards N]
//
// As a pipeline the first card has the first part and sends its 500 numbers a row to the second card, which
// has the second part. Four micro-batches follow each other, so that both cards work at once.
//
// As a tensor split each card has a piece of both matrices. The first is cut by outputs (column-parallel):
// each rank makes its piece of the 500 numbers, and relu needs no other. The second is cut by inputs
// (row-parallel): each rank multiplies what it has, and the sum over the ranks is the result. Source: Shoeybi
// et al., "Megatron-LM", arXiv:1909.08053, section 3.
//
// Both start from the same weights; the losses are the same up to the rounding of sums.
#include <cstdio>
#include <memory>

#include <torch/torch.h>

#include "duoka/comm/session.h"
#include "duoka/core/samples.h"
#include "duoka/data/distributed_sampler.h"
#include "duoka/model/shared_linear.h"
#include "duoka/parallel/assemble.h"
#include "duoka/parallel/autograd_layer.h"
#include "duoka/parallel/mean_squared_error.h"
#include "duoka/train/gradients.h"
#include "duoka/train/optimizer.h"

namespace {

using duoka::Stream;
using duoka::model::SharedLinear;
using duoka::model::Split;
using duoka::parallel::AutogradLayer;
using duoka::parallel::Layout;

constexpr int64_t num_rows = 256, num_inputs = 1000, num_hidden = 500, num_outputs = 10;
constexpr int64_t batch_size = 32, micro_size = 8;

struct Data {
  torch::Tensor inputs, outputs;
};

/// First numbers: those of the whole matrix, the same on every rank, of which a rank keeps what it is asked
/// for.
duoka::Parameter random_parameter(const duoka::model::ParameterRequest& request, at::Device device) {
  torch::manual_seed(static_cast<uint64_t>(request.shape[0]));
  const double scale = 1 / std::sqrt(static_cast<double>(request.shape.back()));
  const at::Tensor whole = torch::randn(request.shape) * scale;
  return request.parameter(duoka::model::cut(whole, request.slice).to(device), /*is_trainable=*/true);
}

/// What this rank has of the network: the layers that the layout gives it, and of each matrix its piece.
duoka::Chain make_chain(const Layout& layout, const Data& data) {
  const auto source = [device = data.inputs.device()](const auto& request) {
    return random_parameter(request, device);
  };
  duoka::Chain chain;
  if (layout.has_layer(0))
    chain.layers.push_back(std::make_unique<AutogradLayer>(
        [data](const at::Tensor&, const Stream& batch) { return data.inputs.index_select(0, batch.ids); },
        AutogradLayer::NamedTensors{}));
  if (layout.has_layer(1))
    chain.layers.push_back(std::make_unique<SharedLinear>(source, "first", num_hidden, num_inputs, true,
                                                          Split::outputs, layout.tensor_axis()));
  if (layout.has_layer(2))
    chain.layers.push_back(std::make_unique<AutogradLayer>(
        [](const at::Tensor& x, const Stream&) { return torch::relu(x); }, AutogradLayer::NamedTensors{}));
  if (layout.has_layer(3))
    chain.layers.push_back(std::make_unique<SharedLinear>(source, "second", num_outputs, num_hidden, true,
                                                          Split::inputs, layout.tensor_axis()));
  if (layout.has_layer(4))
    chain.objective = std::make_unique<duoka::parallel::MeanSquaredError>(
        [data](const Stream& batch) { return data.outputs.index_select(0, batch.ids); });
  return chain;
}

std::vector<Stream> cut(std::span<const int64_t> rows, at::Device device) {
  std::vector<Stream> micro;
  for (size_t i = 0; i < rows.size(); i += micro_size)
    micro.push_back(
        duoka::make_samples(rows.subspan(i, std::min<size_t>(micro_size, rows.size() - i)), device));
  return micro;
}

/// Ten epochs under one plan; the loop is that of data_parallel.cpp.
void fit(const char* name, const duoka::parallel::Plan& plan, const Data& data,
         const duoka::comm::Session& session) {
  Layout layout(plan, session.group());
  // Of five layers the first three, up to relu, on the first card; the objective is the last one.
  layout.share_layers({.costs = std::vector<double>(5), .width = num_hidden});
  duoka::Chain chain = make_chain(layout, data);
  const auto engine = duoka::parallel::assemble(chain, layout);
  const auto optimizer = duoka::train::make_sgd({});
  optimizer->prepare(engine->slots());
  int64_t num_held = 0;
  for (const duoka::Parameter* parameter : chain.parameters()) num_held += parameter->numel();
  if (session.is_first())
    std::printf("%s: rank 0 of %d holds %ld weights\n", name, session.group().size(), num_held);

  const auto share = layout.data_share();  // cards that share the model take the same rows
  const duoka::data::DistributedSampler sampler(num_rows, batch_size, /*seed=*/1, share.rank, share.size);
  for (int epoch = 0; epoch < 10; ++epoch) {
    double sum = 0;
    for (const auto& batch : sampler.epoch(epoch)) {
      const auto loss_sum = engine->forward_backward(cut(batch.rows, session.device()), batch.num_rows);
      engine->finish_gradients();
      const auto result =
          duoka::train::sum_loss_and_norm(loss_sum, batch.num_rows, engine->slots(), engine->group());
      optimizer->step(engine->slots(), 0.01);
      engine->publish();
      sum += result.loss * static_cast<double>(batch.num_rows);
    }
    if (session.is_first()) std::printf("%s: epoch %d loss %.6f\n", name, epoch + 1, sum / num_rows);
  }
}

void train(const duoka::comm::Session& session) {
  torch::manual_seed(1);
  Data data{torch::randn({num_rows, num_inputs}).to(session.device()), {}};
  data.outputs = torch::sin(data.inputs.narrow(1, 0, num_outputs));
  const int num_ranks = session.group().size();
  if (num_ranks % 2 == 0) fit("pipeline", {.pipeline = 2, .split = {3, 2}}, data, session);
  fit("tensor split", {.tensor = num_ranks}, data, session);
}

}  // namespace

int main(int argc, char** argv) { return duoka::comm::run_main(argc, argv, train); }
