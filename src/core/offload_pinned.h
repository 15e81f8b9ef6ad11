// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Stream.h>

#include "core/offload_store.h"

namespace duoka {

/// For tensors of a GPU: pinned host memory, and a stream of its own that copies beside the one that
/// computes.
class OffloadPinned final : public OffloadStore, public std::enable_shared_from_this<OffloadPinned> {
 public:
  explicit OffloadPinned(at::Device device);

  std::unique_ptr<OffloadPlace> reserve(int64_t num_bytes) override;
  Traffic traffic() const override { return traffic_; }

 private:
  class Place;
  c10::Stream computing() const;
  /// What the copying stream is given from here on begins when the computing one has done what it has now.
  void copy_after_computing() const;

  at::Device device_;
  c10::Stream copying_;
  Traffic traffic_;
};

}  // namespace duoka
