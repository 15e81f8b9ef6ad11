// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "duoka/cli/command.h"
#include "duoka/comm/group.h"
#include "duoka/core/log.h"

namespace duoka::cli {

/// What a rank's body is given.
struct RankContext {
  comm::Group group;  ///< All ranks; solo for one.
  at::Device device = at::kCPU;
  Log log;
};

/// How many ranks this command line runs on: those that a launcher has started, --cards, or one. Throws
/// ConfigError where both are given.
int count_ranks(const CommandLine& line);

/// Runs `body` on every rank: by starting `line.num_cards` copies of this process on this machine,
/// or, in a process that a launcher started (this one, torchrun, Slurm, mpirun), on that rank. Returns the
/// exit code. `timeout_seconds`: longest wait for peers.
int run_on_ranks(const CommandLine& line, int64_t timeout_seconds,
                 const std::function<int(RankContext&)>& body);

}  // namespace duoka::cli
