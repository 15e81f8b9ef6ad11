// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "duoka/comm/group.h"
#include "duoka/comm/world.h"

namespace duoka::comm {

class KeyStore;

/// Ranks that are threads of this process, each with its own real group (Gloo over loopback; NCCL when
/// asked for): for tests and for `duoka doctor`. Needs no port and no environment.
class LocalMeeting final {
 public:
  explicit LocalMeeting(int num_ranks);
  ~LocalMeeting();

  /// Called once by each of `num_ranks` threads with its own rank; returns when all have come.
  /// Throws as connect() does.
  Group join(int rank, const ConnectOptions& options = {});

 private:
  int num_ranks_;
  std::shared_ptr<KeyStore> store_;
};

}  // namespace duoka::comm
