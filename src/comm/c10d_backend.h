// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "comm/key_store.h"
#include "comm/wires.h"

namespace duoka::comm {

struct WiresOptions {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};
  /// Address of this machine that Gloo listens on.
  std::string address = "127.0.0.1";
  /// -1: no NCCL.
  int cuda_device = -1;
  /// Collectives of CPU tensors of at least so many bytes, all-reduces of four times as many, read the memory
  /// of peers, where all ranks can (near_collectives.h). Below, meetings cost more than is saved. -1: none do.
  int64_t near_bytes = int64_t{4} << 20;
};

/// Gloo, near memory where it works, and NCCL where asked for, over c10d. Collective; `store` must come from
/// key_store.h and is kept.
std::shared_ptr<Wires> make_wires(std::shared_ptr<KeyStore> store, const WiresOptions& options);

}  // namespace duoka::comm
