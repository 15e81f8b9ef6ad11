// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/offload_store.h"
#include "duoka/parallel/slot.h"

namespace duoka::parallel {

/// Neighbouring slots with masters of so many bytes, and at least one, are in memory together: a small one
/// would not be worth the wait. Three of these windows at a time: one in use, one before and one behind it.
inline constexpr int64_t slot_window_bytes = int64_t{8} << 20;

/// Where the numbers of one slot lie while nobody uses them. Masters that are the values of layers stay in
/// memory, and so do small tensors.
class SlotHome final {
 public:
  /// visible: where the numbers of the slot's master become visible to layers, as in OwnedSlots.
  SlotHome(std::shared_ptr<OffloadStore> store, at::Tensor visible);

  /// Starts bringing the numbers.
  void fetch(const Slot& slot);
  /// Until they are in memory; has_numbers false: memory for them is.
  void bring(const Slot& slot, bool has_numbers = true);
  /// Gives their memory up. is_changed: starts writing them, and shows layers the master; else only entries
  /// of the state that are new are written.
  void send(const Slot& slot, bool is_changed);
  void wait_until_out();

 private:
  template <class Visit>
  void for_each_tensor(const Slot& slot, const Visit& visit) const;

  std::shared_ptr<OffloadStore> store_;
  at::Tensor visible_;
  std::map<std::string, std::unique_ptr<OffloadPlace>> places_;
};

}  // namespace duoka::parallel
