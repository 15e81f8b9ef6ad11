// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace duoka::comm {

/// NCCL over the CUDA device `device`, whose communicator is made at the first collective.
/// Throws ConfigError in a build without CUDA, or when there is no such device.
c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            int device, std::chrono::milliseconds timeout);

}  // namespace duoka::comm
