// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "duoka/core/layer.h"
#include "duoka/core/layer_range.h"
#include "duoka/parallel/autograd_layer.h"
#include "duoka/parallel/mean_squared_error.h"
#include "duoka/parallel/stack.h"

namespace duoka::test {

struct ToyOptions {
  at::ScalarType dtype = at::kDouble;
  int num_blocks = 3;
  int64_t vocabulary = 11;
  int64_t width = 6;
  bool is_tied = true;
  /// Blocks below this one, and the embedding when it is not tied, are frozen.
  int first_trained_block = -1;
  double offset = 0;  ///< Added to every weight: another model of the same shape.
  /// What is made of it; empty: all. Embedding, blocks, head, objective.
  std::vector<LayerRange> layers = {};

  bool has_layer(int64_t layer) const {
    for (const LayerRange& range : layers)
      if (range.contains(layer)) return true;
    return layers.empty();
  }
};

/// For Layout::share_layers(): the objective, which wants the head's width, stays with the head.
inline parallel::Stack toy_stack(const ToyOptions& options) {
  parallel::Stack stack{std::vector<double>(static_cast<size_t>(options.num_blocks) + 2, 1.0), options.width};
  stack.costs.push_back(0);
  if (options.is_tied) stack.tied = {"embedding.weight"};
  return stack;
}

/// The same numbers in every thread and run: a sine of the place.
inline at::Tensor toy_weight(at::IntArrayRef shape, double seed, const ToyOptions& options, bool is_trained) {
  const int64_t numel = c10::multiply_integers(shape);
  const at::Tensor place = at::arange(numel, at::kDouble);
  return (at::sin(place * 0.7 + seed) * 0.5 + options.offset)
      .view(shape)
      .to(options.dtype)
      .requires_grad_(is_trained);
}

/// Does nothing but tell when it is passed, and own a parameter if it is given one.
class Probe final : public Layer {
 public:
  std::function<void()> on_forward = [] {};
  std::function<void()> on_backward = [] {};

  std::vector<Parameter*> parameters() override { return {}; }
  at::Tensor forward(const at::Tensor& x, const Stream&, Saved& saved) override {
    on_forward();
    saved.push(x);
    return x;
  }
  at::Tensor backward(const at::Tensor& dy, const Stream&, Saved& saved) override {
    saved.pop();
    on_backward();
    return dy;
  }
};

/// embedding, blocks x + tanh(W x + b), a head that is the embedding again (or its own matrix), and the
/// squared error to the one-hot target.
inline Chain make_toy(const ToyOptions& options = {}) {
  using parallel::AutogradLayer;
  Chain chain;
  const bool trains_all = options.first_trained_block < 0;
  const auto table =
      toy_weight({options.vocabulary, options.width}, 0.1, options, trains_all || options.is_tied);
  auto embedding = std::make_unique<AutogradLayer>(
      [table](const at::Tensor&, const Stream& s) { return table.index_select(0, s.ids); },
      AutogradLayer::NamedTensors{{"embedding.weight", table}});
  AutogradLayer& owner = *embedding;
  if (options.has_layer(0)) chain.layers.push_back(std::move(embedding));
  for (int i = 0; i < options.num_blocks; ++i) {
    if (!options.has_layer(1 + i)) continue;
    const bool is_trained = i >= options.first_trained_block;
    const auto w = toy_weight({options.width, options.width}, 1 + i, options, is_trained);
    const auto b = toy_weight({options.width}, 2 + i, options, is_trained);
    const std::string name = "blocks." + std::to_string(i);
    chain.layers.push_back(std::make_unique<AutogradLayer>(
        [w, b](const at::Tensor& x, const Stream&) { return x + at::tanh(at::matmul(x, w.t()) + b); },
        AutogradLayer::NamedTensors{{name + ".weight", w}, {name + ".bias", b}}));
  }
  if (!options.has_layer(options.num_blocks + 1)) return chain;
  const bool shares_table = options.is_tied && options.has_layer(0);
  const auto head =
      options.is_tied ? table : toy_weight({options.vocabulary, options.width}, 5, options, true);
  AutogradLayer::NamedTensors own;
  if (!shares_table) own = {{options.is_tied ? "embedding.weight" : "head.weight", head}};
  auto last = std::make_unique<AutogradLayer>(
      [head](const at::Tensor& x, const Stream&) { return at::matmul(x, head.t()); }, std::move(own));
  if (shares_table) last->tie(owner);
  chain.layers.push_back(std::move(last));
  chain.objective = std::make_unique<parallel::MeanSquaredError>([options](const Stream& s) {
    return at::one_hot(s.targets.clamp_min(0), options.vocabulary).to(options.dtype);
  });
  return chain;
}

/// Micro-batch number `index` of a run: one to three rows of different lengths, some tokens not trained.
inline Stream toy_stream(int index, int64_t vocabulary = 11) {
  std::vector<std::vector<int32_t>> ids, labels;
  for (int row = 0; row <= index % 3; ++row) {
    ids.emplace_back();
    labels.emplace_back();
    for (int i = 0; i < 3 + (index * 2 + row) % 4; ++i) {
      ids.back().push_back(static_cast<int32_t>((7 * index + 3 * row + 5 * i) % vocabulary));
      labels.back().push_back(i < 2 ? static_cast<int32_t>(ignore_index) : ids.back().back());
    }
  }
  std::vector<RowView> rows;
  for (size_t row = 0; row < ids.size(); ++row)
    rows.push_back({ids[row], labels[row], static_cast<uint64_t>(index * 10) + row});
  return make_stream(rows);
}

inline int64_t count_trained(std::span<const Stream> streams) {
  int64_t count = 0;
  for (const Stream& stream : streams) count += stream.num_trained;
  return count;
}

}  // namespace duoka::test
