// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/exact_sum.h"
#include "duoka/parallel/engine.h"
#include "duoka/parallel/slot.h"

namespace duoka::parallel {

/// Data parallelism for a network that is no chain: any torch::nn::Module, or any function of ATen tensors,
/// with as many inputs and branches as it likes. Each rank computes its own micro-batches; a parameter's
/// gradient is sent while autograd is still busy with the others. One update is
///
///   const auto loss_sum = parallel.forward_backward(num_micro, num_samples, [&](int64_t micro) {
///     return torch::mse_loss(net(x[micro]), y[micro], torch::Reduction::Sum);
///   });
///   parallel.finish_gradients();
///   … clip parallel.slots(), optimizer step on them …
///   parallel.publish();
///
/// Without ZeRO the sums are also each tensor's grad(), so that an optimizer of torch::optim may take the
/// step. All calls but slots() are collective over group(): each rank, in the same order. Not thread-safe.
class DataParallel final {
 public:
  using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
  /// The loss of this rank's micro-batch `micro`, a tensor of one number, summed over its samples. Called
  /// with gradients on; makes no collectives over the layout's groups (they would get between the sums of
  /// gradients).
  using LossSum = std::function<at::Tensor(int64_t micro)>;

  /// parameters: floating-point leaf tensors, each once, in the order in which the forward uses them (sums
  /// start in the reverse order), under the names of checkpoints. Those that require a gradient are trained,
  /// in their own memory; every rank takes the first one's values of them. Buffers (running means and the
  /// like) stay each rank's own.
  /// layout: data ranks, and zero_stage 0, 1 or 2; it outlives this. Collective over its world. Throws
  /// ConfigError for another plan or when nothing is trainable; StateError for tensors that are none of the
  /// above or have a post-accumulate hook already, for ranks that differ, and for options.recompute.
  DataParallel(const NamedTensors& parameters, Layout& layout, const EngineOptions& options = {});
  /// Takes its hooks off the tensors. Does not wait for sums under way.
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Gradient of (sum of the loss over all ranks' micro-batches) / num_samples, and the sum of the loss over
  /// this rank's. num_micro: micro-batches of this rank, any number, also none; their gradients add up, and
  /// sums over the ranks start in the backward of the last one (with ZeRO-2 in each). num_samples: those of
  /// the whole update, the same on every rank, >= 1. A parameter that a micro-batch does not use counts as
  /// zero. Returns without waiting for the sums. Sends what Engine::forward_backward() does.
  ExactSum forward_backward(int64_t num_micro, int64_t num_samples, const LossSum& loss_sum);
  /// Waits for the sums; afterwards Slot::grad holds the whole update's gradient on each rank.
  void finish_gradients();
  /// What the optimizer of this rank owns, in the order of the parameters; the same objects all the time.
  std::span<Slot> slots();
  /// Makes the masters visible to the module: half-precision values, and with ZeRO the other ranks' rows.
  void publish();
  const comm::Group& group() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace duoka::parallel
