// SPDX-License-Identifier: Apache-2.0
#include "parallel/slot_home.h"

#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "core/tensor_bytes.h"
#include "duoka/core/host_allocator.h"

namespace duoka::parallel {

namespace {

constexpr const char* master_name = "master";

}  // namespace

SlotHome::SlotHome(std::shared_ptr<OffloadStore> store, at::Tensor visible)
    : store_(std::move(store)), visible_(std::move(visible)) {}

template <class Visit>
void SlotHome::for_each_tensor(const Slot& slot, const Visit& visit) const {
  if (!slot.master.is_same(visible_) && slot.master.nbytes() >= smallest_offloaded_bytes)
    visit(master_name, slot.master);
  for (const auto& [name, tensor] : slot.state)
    if (tensor.nbytes() >= smallest_offloaded_bytes) visit(name, tensor);
}

void SlotHome::fetch(const Slot&) {
  const MemoryScope scope(MemoryClass::optimizer);
  for (const auto& [name, place] : places_) place->fetch();
}

void SlotHome::bring(const Slot& slot, bool has_numbers) {
  const MemoryScope scope(MemoryClass::optimizer);
  for_each_tensor(slot, [&](const std::string& name, const at::Tensor& tensor) {
    if (has_bytes(tensor)) return;
    const auto num_bytes = static_cast<int64_t>(tensor.nbytes());
    give_bytes(tensor, has_numbers ? places_.at(name)->take()
                                   : at::empty({num_bytes}, tensor.options().dtype(at::kByte)));
  });
}

void SlotHome::send(const Slot& slot, bool is_changed) {
  if (is_changed && !slot.master.is_same(visible_)) visible_.copy_(slot.master);
  for_each_tensor(slot, [&](const std::string& name, const at::Tensor& tensor) {
    const bool is_new = !places_.contains(name);
    if (is_new) places_[name] = store_->reserve(static_cast<int64_t>(tensor.storage().nbytes()));
    at::Tensor bytes = take_bytes(tensor);
    if (is_new || is_changed) places_.at(name)->put(std::move(bytes));
  });
}

void SlotHome::wait_until_out() {
  for (const auto& [name, place] : places_) place->wait_until_out();
}

namespace {

std::vector<std::span<Slot>> windows_of(std::span<Slot> slots) {
  std::vector<std::span<Slot>> windows;
  size_t begin = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    bytes += static_cast<int64_t>(slots[i].master.nbytes());
    if (bytes < slot_window_bytes && i + 1 < slots.size()) continue;
    windows.push_back(slots.subspan(begin, i + 1 - begin));
    begin = i + 1;
    bytes = 0;
  }
  return windows;
}

}  // namespace

void visit_slots(std::span<Slot> slots, SlotUse use, const std::function<void(std::span<Slot>)>& body) {
  if (slots.empty() || !slots.front().home) return body(slots);
  const at::NoGradGuard no_grad;
  const bool has_numbers = use != SlotUse::overwrite;
  const auto windows = windows_of(slots);
  const auto fetch = [&](size_t i) {
    if (i < windows.size() && has_numbers)
      for (const Slot& slot : windows[i]) slot.home->fetch(slot);
  };
  fetch(0);
  for (size_t i = 0; i < windows.size(); ++i) {
    for (const Slot& slot : windows[i]) slot.home->bring(slot, has_numbers);
    fetch(i + 1);
    body(windows[i]);
    for (const Slot& slot : windows[i]) slot.home->send(slot, use != SlotUse::read);
    if (i > 0)
      for (const Slot& slot : windows[i - 1]) slot.home->wait_until_out();
  }
}

SlotLease::SlotLease(const Slot& slot) : slot_(slot) {
  if (slot.home) slot.home->bring(slot);
}

SlotLease::~SlotLease() {
  if (slot_.home) slot_.home->send(slot_, /*is_changed=*/false);
}

}  // namespace duoka::parallel
