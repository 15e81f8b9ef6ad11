// SPDX-License-Identifier: Apache-2.0
#include "cli/ranks.h"

#include "duoka/comm/launcher.h"
#include "duoka/comm/session.h"
#include "duoka/comm/world.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::cli {

namespace {

int run_one_rank(const comm::World& world, int64_t timeout_seconds,
                 const std::function<int(RankContext&)>& body) {
  const at::Device device = comm::device_of(world);
  comm::ConnectOptions options;
  options.timeout = std::chrono::seconds(timeout_seconds);
  options.cuda_device = device.is_cuda() ? device.index() : -1;
  RankContext context{comm::connect(world, options), device, Log(world.rank, world.size)};
  return body(context);
}

}  // namespace

int run_on_ranks(const CommandLine& line, int64_t timeout_seconds,
                 const std::function<int(RankContext&)>& body) {
  const comm::World world = comm::World::from_environment();
  if (world.launcher != comm::Launcher::none) {
    if (line.num_cards > 0 && world.launcher != comm::Launcher::duoka)
      throw ConfigError(text("--cards ", line.num_cards, " under ", comm::launcher_name(world.launcher),
                             ", which has started ", world.size, " ranks already; leave --cards out"));
    return comm::run_rank(world.rank, world.size, [&] { return run_one_rank(world, timeout_seconds, body); });
  }
  if (line.num_cards > 1) {
    comm::LaunchOptions options;
    options.pin_cores = line.pins_cores;
    return comm::launch(line.num_cards, line.all, options);
  }
  return run_one_rank(world, timeout_seconds, body);
}

}  // namespace duoka::cli
