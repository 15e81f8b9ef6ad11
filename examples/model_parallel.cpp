// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism: Linear(1000, 500), relu, Linear(500, 10), each matrix shared by the ranks.
//
//   model_parallel [--cards N]
//
// The first matrix is cut by outputs: each rank makes its part of the 500 hidden numbers, and relu needs no
// other. The second is cut by inputs: each rank multiplies what it has, and the sum over the ranks is the
// result. So one sum forward is all that is sent (and one backward, where a layer below wants it). Source:
// Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3.
#include <cstdio>
#include <memory>

#include <torch/torch.h>

#include "duoka/comm/session.h"
#include "duoka/core/samples.h"
#include "duoka/data/distributed_sampler.h"
#include "duoka/model/linear.h"
#include "duoka/parallel/assemble.h"
#include "duoka/parallel/mean_squared_error.h"
#include "duoka/train/gradients.h"
#include "duoka/train/optimizer.h"

namespace {

using duoka::Saved;
using duoka::Stream;
using duoka::model::Linear;
using duoka::model::Split;
using duoka::model::TensorAxis;

constexpr int64_t num_rows = 256, num_inputs = 1000, num_hidden = 500, num_outputs = 10, batch_size = 32;

/// Gives layers their first numbers: those of the whole matrix, of which each rank keeps its part.
duoka::Parameter random_parameter(const duoka::model::ParameterRequest& request, at::Device device) {
  torch::manual_seed(static_cast<uint64_t>(request.shape[0]));
  const double scale = 1 / std::sqrt(static_cast<double>(request.shape.back()));
  const at::Tensor whole = torch::randn(request.shape) * scale;
  return request.parameter(duoka::model::cut(whole, request.slice).to(device), /*is_trainable=*/true);
}

/// A layer of one's own with a hand-written backward, made of two of duoka's that are cut in opposite ways.
class SharedMlp final : public duoka::Layer {
 public:
  SharedMlp(const duoka::model::ParameterSource& source, std::shared_ptr<const TensorAxis> axis)
      : axis_(std::move(axis)),
        first_(source, "first", num_hidden, num_inputs, /*has_bias=*/true, Split::outputs, *axis_),
        second_(source, "second", num_outputs, num_hidden, /*has_bias=*/true, Split::inputs, *axis_) {}

  std::vector<duoka::Parameter*> parameters() override {
    auto all = first_.parameters();
    for (duoka::Parameter* parameter : second_.parameters()) all.push_back(parameter);
    return all;
  }

  at::Tensor forward(const at::Tensor& x, const Stream& batch, Saved& saved) override {
    const at::Tensor hidden = torch::relu(first_.forward(x, batch, saved));
    saved.push(hidden);
    at::Tensor y = second_.forward(hidden, batch, saved);
    if (!axis_->is_solo()) axis_->sum_(y);
    return y;
  }

  at::Tensor backward(const at::Tensor& dy, const Stream& batch, Saved& saved) override {
    const at::Tensor dhidden = second_.backward(dy, batch, saved);
    const at::Tensor hidden = saved.pop();
    at::Tensor dx = first_.backward(dhidden * (hidden > 0), batch, saved);
    if (!axis_->is_solo()) axis_->sum_(dx);
    return dx;
  }

  const Linear& first() const { return first_; }

 private:
  std::shared_ptr<const TensorAxis> axis_;
  Linear first_, second_;
};

/// Turns the numbers of samples into their inputs.
class Inputs final : public duoka::Layer {
 public:
  explicit Inputs(at::Tensor table) : table_(std::move(table)) {}
  std::vector<duoka::Parameter*> parameters() override { return {}; }
  at::Tensor forward(const at::Tensor&, const Stream& batch, Saved&) override {
    return table_.index_select(0, batch.ids);
  }
  at::Tensor backward(const at::Tensor&, const Stream&, Saved&) override { return {}; }

 private:
  at::Tensor table_;
};

void train(const duoka::comm::Session& session) {
  const at::Device device = session.device();
  torch::manual_seed(1);
  const at::Tensor inputs = torch::randn({num_rows, num_inputs}).to(device);
  const at::Tensor outputs = torch::sin(inputs.narrow(1, 0, num_outputs));

  duoka::parallel::Layout layout({.tensor = session.group().size()}, session.group());
  auto mlp = std::make_unique<SharedMlp>(
      [device](const auto& request) { return random_parameter(request, device); }, layout.tensor_axis());
  if (session.is_first())
    std::printf("rank 0 of %d holds %ld of %ld hidden units\n", session.group().size(),
                mlp->first().outputs().count, num_hidden);
  duoka::Chain chain;
  chain.layers.push_back(std::make_unique<Inputs>(inputs));
  chain.layers.push_back(std::move(mlp));
  chain.objective = std::make_unique<duoka::parallel::MeanSquaredError>(
      [outputs](const Stream& batch) { return outputs.index_select(0, batch.ids); });

  const auto engine = duoka::parallel::assemble(chain, layout);
  const auto optimizer = duoka::train::make_sgd({});
  optimizer->prepare(engine->slots());
  const auto share = layout.data_share();  // all ranks take the same rows: none is a data rank of its own
  const duoka::data::DistributedSampler sampler(num_rows, batch_size, /*seed=*/1, share.rank, share.size);
  for (int epoch = 0; epoch < 10; ++epoch) {
    double sum = 0;
    for (const auto& batch : sampler.epoch(epoch)) {
      const std::vector<Stream> micro{duoka::make_samples(batch.rows, device)};
      const auto loss_sum = engine->forward_backward(micro, batch.num_rows);
      engine->finish_gradients();
      sum +=
          duoka::train::sum_loss_and_norm(loss_sum, batch.num_rows, engine->slots(), engine->group()).loss *
          static_cast<double>(batch.num_rows);
      optimizer->step(engine->slots(), 0.01);
      engine->publish();
    }
    if (session.is_first()) std::printf("epoch %d loss %.6f\n", epoch + 1, sum / num_rows);
  }
}

}  // namespace

int main(int argc, char** argv) { return duoka::comm::run_main(argc, argv, train); }
