// SPDX-License-Identifier: Apache-2.0
#include "core/offload_pinned.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka {

class OffloadPinned::Place final : public OffloadPlace {
 public:
  Place(std::shared_ptr<OffloadPinned> store, int64_t num_bytes)
      : store_(std::move(store)),
        host_(at::empty({num_bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true))),
        is_out_(store_->device_.type()),
        is_in_(store_->device_.type()) {}

  void put(at::Tensor bytes) override {
    if (bytes.numel() != host_.numel())
      throw StateError(text("offload of ", bytes.numel(), " bytes to a place of ", host_.numel()));
    fetched_.reset();
    store_->traffic_.bytes_out += host_.numel();
    store_->copy_after_computing();
    {
      const c10::StreamGuard on_copying(store_->copying_);
      host_.copy_(bytes, /*non_blocking=*/true);
    }
    is_out_.record(store_->copying_);
    // The allocator gives the memory to no other before this copy is done.
    bytes.record_stream(store_->copying_);
  }
  void wait_until_out() override { is_out_.synchronize(); }
  void fetch() override {
    if (fetched_.defined()) return;
    wait_until_out();  // so that it is not in memory twice
    store_->traffic_.bytes_in += host_.numel();
    // Memory that the computing stream may still be using for what was in it before.
    fetched_ = at::empty({host_.numel()}, host_.options().pinned_memory(false).device(store_->device_));
    store_->copy_after_computing();
    {
      const c10::StreamGuard on_copying(store_->copying_);
      fetched_.copy_(host_, /*non_blocking=*/true);
    }
    is_in_.record(store_->copying_);
    fetched_.record_stream(store_->copying_);
  }
  at::Tensor take() override {
    fetch();
    is_in_.block(store_->computing());
    return std::exchange(fetched_, at::Tensor());
  }

 private:
  std::shared_ptr<OffloadPinned> store_;
  at::Tensor host_, fetched_;
  c10::Event is_out_, is_in_;
};

OffloadPinned::OffloadPinned(at::Device device)
    : device_(device), copying_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

std::unique_ptr<OffloadPlace> OffloadPinned::reserve(int64_t num_bytes) {
  return std::make_unique<Place>(shared_from_this(), num_bytes);
}

c10::Stream OffloadPinned::computing() const {
  return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
}

void OffloadPinned::copy_after_computing() const {
  c10::Event computed(device_.type());
  computed.record(computing());
  computed.block(copying_);
}

}  // namespace duoka
