// SPDX-License-Identifier: Apache-2.0
// A program of somebody else, built against an installed duoka: something of each layer, so that each library
// and what it needs is linked.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include <ATen/ops/full.h>

#include "duoka/comm/collectives.h"
#include "duoka/comm/session.h"
#include "duoka/core/error.h"
#include "duoka/core/samples.h"
#include "duoka/data/tokenizer.h"
#include "duoka/io/yaml.h"
#include "duoka/model/config.h"
#include "duoka/parallel/assemble.h"
#include "duoka/parallel/autograd_layer.h"
#include "duoka/parallel/data_parallel.h"
#include "duoka/parallel/mean_squared_error.h"
#include "duoka/train/checkpoint.h"
#include "duoka/train/optimizer.h"
#include "duoka/tune/selection.h"

namespace {

/// One update of the single weight of y = w x, with x = 1, w = 0, y wanted 1: the gradient is -2.
double updated_weight(const duoka::comm::Session& session) {
  using duoka::parallel::AutogradLayer;
  const at::Tensor w = at::full({1, 1}, 0.0, at::device(session.device())).requires_grad_(true);
  duoka::Chain chain;
  chain.layers.push_back(std::make_unique<AutogradLayer>(
      [w](const at::Tensor&, const duoka::Stream& batch) {
        return w.expand({batch.num_tokens(), 1});
      },
      AutogradLayer::NamedTensors{{"w", w}}));
  chain.objective = std::make_unique<duoka::parallel::MeanSquaredError>([](const duoka::Stream& batch) {
    return at::full({batch.num_tokens(), 1}, 1.0, at::device(batch.ids.device()));
  });
  duoka::parallel::Layout layout({}, session.group());
  const auto engine = duoka::parallel::assemble(chain, layout);
  const auto optimizer = duoka::train::make_sgd({});
  optimizer->prepare(engine->slots());
  const std::vector<int64_t> samples{session.group().rank()};
  const std::vector<duoka::Stream> micro{duoka::make_samples(samples, session.device())};
  engine->forward_backward(micro, session.group().size());
  engine->finish_gradients();
  optimizer->step(engine->slots(), 0.25);
  engine->publish();
  return w.item<double>();
}

/// The same weight and update for a network that is no chain.
double updated_by_hooks(const duoka::comm::Session& session) {
  const at::Tensor w = at::full({1, 1}, 0.0, at::device(session.device())).requires_grad_(true);
  duoka::parallel::Layout layout({}, session.group());
  duoka::parallel::DataParallel parallel({{"w", w}}, layout);
  parallel.forward_backward(1, session.group().size(), [&](int64_t) { return w.sub(1).square().sum(); });
  parallel.finish_gradients();
  duoka::train::make_sgd({})->step(parallel.slots(), 0.25);
  parallel.publish();
  return w.item<double>();
}

/// Whether `read` says that there is nothing to read.
template <class Read>
bool is_refused(Read read) {
  try {
    read();
  } catch (const duoka::Error&) {
    return true;
  }
  return false;
}

void run(const duoka::comm::Session& session) {
  const std::filesystem::path nowhere = "no such folder";
  if (duoka::io::parse_yaml_text("a: 1", "text").entries.size() != 1 ||
      !duoka::tune::matches_suffix("layers.0.q_proj", "q_proj") ||
      duoka::train::find_last_whole_checkpoint(nowhere).folder ||
      !is_refused([&] { duoka::data::Tokenizer::from_folder(nowhere); }) ||
      !is_refused([&] { duoka::model::read_config(nowhere); }))
    throw duoka::StateError("a layer of the installed library does not answer as it should");
  const double weight = updated_weight(session);
  if (updated_by_hooks(session) != weight) throw duoka::StateError("the two ways of training differ");
  if (session.is_first()) std::printf("%d ranks, weight %.2f\n", session.group().size(), weight);
}

}  // namespace

int main(int argc, char** argv) { return duoka::comm::run_main(argc, argv, run); }
