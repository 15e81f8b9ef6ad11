// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/offload_store.h"
#include "duoka/core/layer.h"

namespace duoka::parallel {

struct Trace;

/// Memory that tensors of one or more layers share, while it is away: written once, brought back once, and in
/// memory from then on until the last of them has taken it.
struct AwayMemory {
  /// What it was. Keeps the address from being another's, so that who meets it again knows it.
  c10::weak_intrusive_ptr<c10::StorageImpl> origin;
  std::unique_ptr<OffloadPlace> place;
  at::Tensor bytes;  ///< Once it is back.
};

/// One tensor of a trace: itself, or how it lies in memory that is away.
struct AwayTensor {
  at::Tensor tensor;
  std::shared_ptr<AwayMemory> memory;
  at::TensorOptions options;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

/// Takes what a layer's forward left for its backward out of memory, and brings it back. At most two layers'
/// are on their way out at a time.
///
/// What stays: parameters and the stream, whose memory others hold; tensors under 4 KiB; tensors that
/// autograd knows, which its graph holds.
class ActivationOffload final {
 public:
  /// Parameters of `chain` may be released and restored, but not replaced.
  ActivationOffload(std::shared_ptr<OffloadStore> store, const Chain& chain);

  /// Starts moving `trace` out, and waits for the one before it to be out. Others that share memory with it
  /// may go on reading it.
  void put(Trace& trace, const Stream& stream);
  /// Starts bringing it back. Nothing to do for a trace that is not away.
  void fetch(Trace& trace) const;
  /// Makes it what it was; waits if need be.
  void take(Trace& trace) const;

 private:
  bool stays(const at::Tensor& tensor, const std::unordered_set<const c10::StorageImpl*>& held) const;
  std::shared_ptr<AwayMemory> away(const at::Tensor& tensor);

  std::shared_ptr<OffloadStore> store_;
  std::unordered_set<const c10::StorageImpl*> weights_;
  /// Of traces that were put and not taken; and those of them that were put last.
  std::unordered_map<const c10::StorageImpl*, std::weak_ptr<AwayMemory>> known_;
  std::vector<std::weak_ptr<AwayMemory>> leaving_;
};

}  // namespace duoka::parallel
