// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
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
};

/// Gloo, and NCCL where asked for, over c10d. Collective; `store` must come from key_store.h and is kept.
std::shared_ptr<Wires> make_wires(std::shared_ptr<KeyStore> store, const WiresOptions& options);

}  // namespace duoka::comm
