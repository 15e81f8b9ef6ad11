// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "duoka/core/layer.h"

namespace duoka::parallel {

/// Any differentiable function of ATen tensors as a layer of a chain: forward with gradients on, backward by
/// torch's autograd. A user's own torch::nn::Module becomes a layer with
///
///   AutogradLayer([m](const at::Tensor& x, const Stream&) mutable { return m->forward(x); },
///                 {{"block.weight", m->weight}, …});
///
/// Random draws inside `function` are not repeated when an engine recomputes; key them on the stream.
class AutogradLayer final : public Layer {
 public:
  using Function = std::function<at::Tensor(const at::Tensor& x, const Stream& stream)>;
  using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

  /// parameters: floating-point leaf tensors `function` reads, under the names of checkpoints. Those that
  /// require a gradient are trained. Updates are made in their memory, so that `function` sees them.
  /// Throws StateError when a tensor is not a floating-point leaf or a name comes twice.
  AutogradLayer(Function function, NamedTensors parameters);

  /// Also trains what `owner` owns: for a weight tied between two layers. `function` reads the same leaf
  /// tensors. `owner` must outlive this layer.
  void tie(AutogradLayer& owner);

  std::vector<Parameter*> parameters() override;
  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) override;
  at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) override;

 private:
  Function function_;
  std::vector<std::unique_ptr<Parameter>> own_;
  std::vector<Parameter*> used_;    // own and tied
  std::vector<at::Tensor> leaves_;  // the tensors `function_` reads, one for each of used_
};

}  // namespace duoka::parallel
