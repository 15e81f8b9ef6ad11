// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>

#include "duoka/core/exact_sum.h"
#include "duoka/core/layer.h"
#include "duoka/parallel/evaluate.h"
#include "duoka/parallel/slot.h"

namespace duoka::comm {
class Group;
}

namespace duoka::parallel {

class Layout;
class TraceFile;

/// All of a parameter, by name, on the CPU. Throws StateError for a name that no rank has.
using WholeParameter = std::function<at::Tensor(const std::string& name)>;

struct EngineOptions {
  /// Keep only each layer's input and run its forward again before its backward. Same bits, about a third
  /// more arithmetic, one layer's saved tensors at a time.
  bool recompute = false;
  /// Gradients of neighbouring layers are reduced together while they fit in this many bytes; a larger
  /// layer is one reduction by itself. Small enough that adapters still leave something to overlap.
  int64_t bucket_bytes = int64_t{1} << 20;
  /// Add the gradients of an update's micro-batches in one order, whichever rank computed them: any
  /// zero_stage, 1, 2, 4, 8 … data ranks and any accumulation then give the same bits for the same
  /// micro-batches, at the same number of threads a rank. (Tensor, context and pipeline parallelism compute
  /// other sums, which no order makes equal.)
  bool exact = false;
  /// Move what a layer saves for its backward (with recompute: its input) to host memory, or where layers
  /// compute on a CPU to a file, and back a layer ahead. Same bits. What stays: the last layer's, tensors
  /// under 4 KiB, and those of an AutogradLayer's own graph.
  bool offload_activations = false;
  /// The same for the optimizer's state and f32 masters, between one update and the next; see Slot.
  bool offload_optimizer = false;
  /// Of the file; made if it is not there. The file has no name and goes with the process.
  std::filesystem::path offload_folder = {};
};

/// Bytes that an engine has moved out of memory and back. Per micro-batch: what layers save, once each way.
/// Per update: the optimizer's state and f32 masters, once each way.
struct OffloadTraffic {
  int64_t bytes_out = 0, bytes_in = 0;
};

/// Walks a chain of layers forward and backward and hands slices to an optimizer. The trainer's only view of
/// the model, whatever the layout. One update is
///
///   losses = engine.forward_backward(micro, trained_tokens);   // of this rank's rows
///   engine.finish_gradients();
///   … clip engine.slots(), optimizer step on them …
///   engine.publish();
///
/// All calls but slots() and trace() are collective over group(): each rank, in the same order. Not
/// thread-safe.
class Engine final {
 public:
  /// Each rank holds the whole chain, or what layout.keep() left of it. Allocates the gradients of trainable
  /// parameters, and f32 masters of half-precision ones. Checks that ranks which should hold the same
  /// parameters do (names, shapes, dtypes, which are trainable), then takes the first rank's values of the
  /// trainable ones (but of those whose rows were kept already). With ZeRO-3 the chain's parameters hold
  /// numbers inside a walk only. `chain` and `layout` must outlive the engine. Throws ConfigError when
  /// nothing is trainable, StateError when the ranks' models differ, SystemError when there is something to
  /// offload and the folder cannot be written.
  Engine(Chain& chain, Layout& layout, EngineOptions options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Gradient of (sum of the loss over all ranks' micro-batches) / trained_tokens, and the sum of the loss
  /// over this rank's trained tokens: added up over group() it is that of the update, each token counted
  /// once. micro: the micro-batches of this rank's data share (Layout::data_share()), any number, also none
  /// (a rank without rows takes part with zeros). trained_tokens: those of the whole update, all ranks and
  /// micro-batches; the same on every rank, >= 1. Gradients are zeroed first. A layer's are sent when its
  /// backward on the last micro-batch returns (with ZeRO-2 and 3 on each), while the walk goes on; returns
  /// without waiting for them. Sends for P bytes of trainable gradients and n data ranks: 2(n-1)/n P without
  /// ZeRO; (n-1)/n P with ZeRO-1, times the micro-batches with ZeRO-2 and 3; ZeRO-3 also fetches all
  /// parameters twice for each micro-batch.
  ExactSum forward_backward(std::span<const Stream> micro, int64_t trained_tokens);

  /// Waits for the reductions under way; afterwards Slot::grad holds the whole update's gradient on each
  /// rank.
  void finish_gradients();

  /// What the optimizer of this rank owns, in chain order; the same objects all the time. With ZeRO rows of
  /// each parameter; one with fewer rows than ranks has no slot on some.
  std::span<Slot> slots();

  /// Makes the masters visible as the values layers compute with. With ZeRO-1 and 2 the ranks send each other
  /// their rows: (n-1)/n of the bytes of the trainable values.
  void publish();

  /// Loss sums over all ranks' `streams` (any number on each rank, also none). Nothing is kept for a backward
  /// and no gradient touched.
  LossSums evaluate(std::span<const Stream> streams);

  /// Runs `body` on rank 0 of group() with a function that gives it any parameter of the model whole, in the
  /// dtype that layers compute in, whatever the layout; the other ranks help until it is done. One tensor at
  /// a time is whole. Collective. When `body` throws, all ranks throw: rank 0 that, the others a SystemError
  /// with its words.
  void with_whole_parameters(const std::function<void(const WholeParameter& whole)>& body);

  /// Of this rank, since the engine was made.
  OffloadTraffic offload_traffic() const;

  /// From here to stop_trace() each rank notes what it does when, and for what it waits: forwards, backwards,
  /// transfers, of updates that count from `first_update`. Both from the thread that makes the other calls.
  void start_trace(const std::filesystem::path& folder, int64_t first_update = 1);
  /// Writes <folder>/trace.json, for ui.perfetto.dev and chrome://tracing; what ranks with another disk have
  /// noted stays there as trace-rank-<r>.json. On rank 0 returns why something of it is missing, else "".
  /// Does not throw for that.
  std::string stop_trace();
  /// For spans of the caller's own (src/parallel/trace.h); null while nothing is traced. Not collective.
  TraceFile* trace();

  /// All ranks this engine spreads over: what a gradient norm or a checkpoint is agreed on with.
  const comm::Group& group() const;
  const Layout& layout() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace duoka::parallel
