// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "duoka/core/layer.h"
#include "duoka/parallel/evaluate.h"
#include "duoka/parallel/slot.h"

namespace duoka::comm {
class Group;
}

namespace duoka::parallel {

struct EngineOptions {
  /// Keep only each layer's input and run its forward again before its backward. Same bits, about a third
  /// more arithmetic, one layer's saved tensors at a time.
  bool recompute = false;
  /// Gradients of neighbouring layers are reduced together while they fit in this many bytes; a larger
  /// layer is one reduction by itself. Small enough that adapters still leave something to overlap.
  int64_t bucket_bytes = int64_t{1} << 20;
};

/// Walks a chain of layers forward and backward and hands slices to an optimizer. The trainer's only view of
/// the model, whatever the layout. One update is
///
///   share = engine.forward_backward(micro, trained_tokens);   // loss of this rank's rows
///   engine.finish_gradients();
///   … clip engine.slots(), optimizer step on them …
///   engine.publish();
///
/// All calls but slots() are collective over group(): each rank, in the same order. Not thread-safe.
class Engine final {
 public:
  /// Data parallelism over `data`; each rank holds the whole chain. Allocates the gradients of trainable
  /// parameters (Parameter::grad become views into flat buffers) and f32 masters of half-precision ones.
  /// Checks that all ranks hold the same parameters (names, shapes, dtypes, which are trainable), then takes
  /// rank 0's values of the trainable ones. `chain` must outlive the engine.
  /// Throws ConfigError when nothing is trainable, StateError when the ranks' models differ.
  Engine(Chain& chain, comm::Group data, EngineOptions options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Gradient of (sum of the loss over all ranks' micro-batches) / trained_tokens, and this rank's share of
  /// that number: the ranks' shares add up to the mean loss of the update.
  /// micro: this rank's micro-batches, any number, also none (a rank without rows takes part with zeros).
  /// trained_tokens: those of the whole update, all ranks and micro-batches; the same on every rank, >= 1.
  /// Gradients are zeroed first. A layer's are sent when its backward on the last micro-batch returns, while
  /// the walk goes on; returns without waiting for them. Sends 4 (f32) bytes per trainable element, in all.
  double forward_backward(std::span<const Stream> micro, int64_t trained_tokens);

  /// Waits for the reductions under way; afterwards Slot::grad holds the whole update's gradient on each
  /// rank.
  void finish_gradients();

  /// What the optimizer of this rank owns, in chain order; the same objects all the time.
  std::span<Slot> slots();

  /// Makes the masters visible as the values layers compute with. No communication with data parallelism.
  void publish();

  /// Loss sums over all ranks' `streams` (any number on each rank, also none). Nothing is kept for a backward
  /// and no gradient touched.
  LossSums evaluate(std::span<const Stream> streams);

  /// All ranks this engine spreads over: what a gradient norm or a checkpoint is agreed on with.
  const comm::Group& group() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace duoka::parallel
