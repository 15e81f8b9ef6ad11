// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "core/cuda_stream.h"
#include "duoka/core/error.h"

namespace duoka {

/// Around a launch of kernels on a tensor's card: makes it the current one while this lives, and knows the
/// stream that computes there. Needs no CUDA to compile.
class CardLaunch {
 public:
  explicit CardLaunch(const at::Tensor& x) : guard_(x.device()) {
    const c10::impl::VirtualGuardImpl card(x.device().type());
    stream_ = static_cast<CudaStream>(card.getStreamNativeHandle(card.getStream(x.device())));
  }
  CudaStream stream() const { return stream_; }

 private:
  c10::DeviceGuard guard_;
  CudaStream stream_ = nullptr;
};

/// The numbers of a tensor, for a kernel. Throws StateError where they do not lie in order.
template <class T>
T* card_data(const at::Tensor& x) {
  if (!x.is_contiguous()) throw StateError("a kernel was given a tensor that is not contiguous");
  if constexpr (std::is_const_v<T>)
    return x.const_data_ptr<std::remove_const_t<T>>();
  else
    return x.mutable_data_ptr<T>();
}

}  // namespace duoka
