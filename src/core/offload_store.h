// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include <ATen/core/Tensor.h>

namespace duoka {

/// Smaller tensors are not worth the way; who offloads leaves them where they are.
inline constexpr size_t smallest_offloaded_bytes = 4096;

/// The place of one tensor's bytes outside of the memory that layers compute in.
///
/// Copies run beside the caller, those of one store in the order in which they were asked for. Whatever
/// failed on the way (a full disk: SystemError) is thrown by the store's next call, and by each one after it.
class OffloadPlace {
 public:
  /// May come at any time: what is under way is finished or dropped.
  virtual ~OffloadPlace() = default;

  /// Starts copying `bytes` ([n] u8, contiguous, n as reserved) here and returns. Nobody may change them any
  /// more; their memory is free as soon as they are out, if nobody else holds it.
  virtual void put(at::Tensor bytes) = 0;
  /// Until what was put is out, and its memory given up.
  virtual void wait_until_out() = 0;
  /// Starts bringing back what was put last; waits until that is out.
  virtual void fetch() = 0;
  /// The bytes, in memory of their own, once they are there; fetch()es if that was not done. A copy stays
  /// here.
  virtual at::Tensor take() = 0;
};

/// Where tensors go that a card has no room for: pinned host memory for tensors on a GPU, a file for those of
/// a CPU rank. Used by one thread.
class OffloadStore {
 public:
  virtual ~OffloadStore() = default;

  /// Takes no space in memory; in the file as soon as it is used. Places keep their store alive.
  virtual std::unique_ptr<OffloadPlace> reserve(int64_t num_bytes) = 0;

  struct Traffic {
    int64_t bytes_out = 0, bytes_in = 0;
  };
  /// Of all that was asked for so far.
  virtual Traffic traffic() const = 0;
};

/// The store for tensors of `device`. folder: for the file, where the device is a CPU; made if it is not
/// there. The file has no name there: it goes with the process, however that ends. Throws SystemError when
/// the folder cannot be written.
std::shared_ptr<OffloadStore> make_offload_store(at::Device device, const std::filesystem::path& folder);

}  // namespace duoka
