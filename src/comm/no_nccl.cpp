// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl.h"
#include "duoka/core/error.h"

namespace duoka::comm {

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>&, int, int, int,
                                            std::chrono::milliseconds) {
  throw ConfigError(
      "this build has no NCCL; configure with DUOKA_CUDA=ON (preset cuda), or train on the CPU");
}

}  // namespace duoka::comm
