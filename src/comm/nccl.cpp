// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl.h"

#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            int device, std::chrono::milliseconds timeout) {
  const int num_devices = c10::cuda::device_count();
  if (device < 0 || device >= num_devices)
    throw ConfigError(text("rank ", rank, " wants card ", device, ", but this machine shows ", num_devices,
                           "; start no more ranks on it than cards, or look at CUDA_VISIBLE_DEVICES"));
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
  nccl->setBoundDeviceId(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device)));
  return nccl;
}

}  // namespace duoka::comm
