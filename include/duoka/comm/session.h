// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include <ATen/core/Tensor.h>

#include "duoka/comm/group.h"
#include "duoka/comm/world.h"

namespace duoka::comm {

/// What a program of many ranks starts from: this rank's place, its card, and the wires to the others.
class Session final {
 public:
  Session(World world, at::Device device, Group group)
      : world_(std::move(world)), device_(device), group_(std::move(group)) {}

  const Group& group() const { return group_; }  ///< All ranks; solo where there is one.
  at::Device device() const { return device_; }  ///< Where this rank computes.
  const World& world() const { return world_; }
  bool is_first() const { return group_.rank() == 0; }  ///< The rank that prints.

 private:
  World world_;
  at::Device device_;
  Group group_;
};

/// The card of a rank: cuda:local_rank where this machine has cards, else the CPU.
/// Throws ConfigError when it has cards, but not so many.
at::Device device_of(const World& world);

/// Brings the ranks together whose places the environment gives (torchrun, Slurm, mpirun, launch()); one
/// rank alone where it gives none. NCCL between cards, Gloo between CPUs. Collective. Throws as
/// World::from_environment(), device_of() and connect() do. `options.cuda_device` is not read.
Session init(const ConnectOptions& options = {});

/// All of a program's main():
///
///   int main(int argc, char** argv) { return duoka::comm::run_main(argc, argv, train); }
///
/// Runs `body` with the session of init(). Started by hand with `--cards N` among its arguments, it starts N
/// ranks of itself on this machine instead, with the other arguments. Returns the exit code; what `body`
/// throws is told as run_rank() and launch() do it, once, by the rank that failed first.
int run_main(int argc, const char* const* argv, const std::function<void(const Session& session)>& body);

}  // namespace duoka::comm
