// SPDX-License-Identifier: Apache-2.0
#include "cli/ranks.h"

#include <algorithm>

#include "duoka/comm/launcher.h"
#include "duoka/comm/session.h"
#include "duoka/comm/world.h"

namespace duoka::cli {

namespace {

comm::World world_of(const CommandLine& line) {
  const comm::World world = comm::World::from_environment();
  if (line.num_cards > 0 && world.launcher != comm::Launcher::none) comm::refuse_cards(line.num_cards, world);
  return world;
}

int run_one_rank(const comm::World& world, int64_t timeout_seconds,
                 const std::function<int(RankContext&)>& body) {
  const at::Device device = comm::device_of(world);
  comm::ConnectOptions options;
  options.timeout = std::chrono::seconds(timeout_seconds);
  options.cuda_device = device.is_cuda() ? device.index() : -1;
  RankContext context{comm::connect(world, options), device, Log(world.rank, world.size)};
  return body(context);
}

int run_rank_of(const comm::World& world, int64_t timeout_seconds,
                const std::function<int(RankContext&)>& body) {
  return comm::run_rank(world.rank, world.size, [&] { return run_one_rank(world, timeout_seconds, body); });
}

}  // namespace

int count_ranks(const CommandLine& line) {
  const comm::World world = world_of(line);
  return world.launcher == comm::Launcher::none ? std::max(1, line.num_cards) : world.size;
}

int run_on_ranks(const CommandLine& line, int64_t timeout_seconds,
                 const std::function<int(RankContext&)>& body) {
  const comm::World world = world_of(line);
  if (line.pins_cores && line.num_cards <= 1 && world.rank == 0)
    Log().warning("--pin changes nothing in this run (it goes with --cards 2 or more)");
  if (world.launcher != comm::Launcher::none) return run_rank_of(world, timeout_seconds, body);
  if (line.num_cards > 1) {
    comm::LaunchOptions options;
    options.pin_cores = line.pins_cores;
    const auto run_copy = [&] { return run_rank_of(comm::World::from_environment(), timeout_seconds, body); };
    return comm::launch_copies(line.num_cards, run_copy, options);
  }
  return run_one_rank(world, timeout_seconds, body);
}

}  // namespace duoka::cli
