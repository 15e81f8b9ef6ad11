// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/parameter.h"

namespace duoka::parallel {

class SlotHome;

/// A slice of one trainable parameter as the optimizer of this rank sees it. Optimizer, gradient norm and
/// checkpoint are written against slots; none of them knows how the layout cut the tensor.
///
/// The slice is a box in the whole tensor: it begins at `offset` and has the shape of `master`. `master`,
/// `grad` and the per-element entries of `state` have the same shape.
///
/// With EngineOptions::offload_optimizer the numbers of `master` and `state` are in memory only inside
/// visit_slots() and while a SlotLease lives; shapes and dtypes are there all the time.
struct Slot {
  Parameter* parameter = nullptr;
  std::vector<int64_t> offset;  ///< Where the slice begins in the whole tensor, one entry a dim.
  /// What the optimizer updates: f32 for half-precision values, else the memory of the value itself.
  at::Tensor master;
  at::Tensor grad;  ///< Gradient of the whole update; valid after Engine::finish_gradients().
  /// The optimizer's, by its names: "exp_avg", "exp_avg_sq", "step" (0-dim), "momentum_buffer".
  std::map<std::string, at::Tensor> state;
  /// True on exactly one of the ranks that hold this very slice. That one counts it in a gradient norm and
  /// writes it to a checkpoint.
  bool is_primary = true;
  /// Where the numbers are when they are not in memory; null: they always are.
  std::shared_ptr<SlotHome> home = nullptr;
};

/// What is done with the numbers of a slot: looked at; changed; or all of them set, whatever they were.
/// Entries of `state` may be added in any case.
enum class SlotUse { read, update, overwrite };

/// Calls `body` for all of `slots` with their numbers in memory: once where they always are, else for some
/// neighbouring ones at a time, while the next are fetched and the last are written back. In bf16 an
/// offloaded slot's new master is at once what layers see. Throws what `body` does, and SystemError when a
/// disk is full.
void visit_slots(std::span<Slot> slots, SlotUse use, const std::function<void(std::span<Slot>)>& body);

/// Has the numbers of one slot in memory for reading while it lives.
class [[nodiscard]] SlotLease final {
 public:
  /// Waits for them. `slot` outlives this.
  explicit SlotLease(const Slot& slot);
  ~SlotLease();
  SlotLease(const SlotLease&) = delete;
  SlotLease& operator=(const SlotLease&) = delete;

 private:
  const Slot& slot_;
};

}  // namespace duoka::parallel
