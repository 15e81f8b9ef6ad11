// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include <unistd.h>

#include "comm/join.h"
#include "comm/sockets.h"
#include "duoka/comm/world.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

using std::chrono::milliseconds;

/// Who is rank 0 in the join table at `address`. std::nullopt when what listens there keeps none.
std::optional<std::string> other_rank_zero(KeyStore& store) {
  // It may have opened its port just now, and be about to enter itself.
  for (int attempt = 0; attempt < 10; ++attempt) {
    if (auto name = store.find("join/rank/0")) return name;
    std::this_thread::sleep_for(milliseconds(50));
  }
  return std::nullopt;
}

/// The port is taken. When it is a rank 0 of the same kind that holds it, its job is told, for it would
/// otherwise wait for a peer that never comes.
[[noreturn]] void refuse_port(const World& world, const std::string& address) {
  constexpr milliseconds patience{1000};
  std::optional<std::string> holder;
  try {
    const auto store = reach_store(address, world.master_port, world.store_prefix, patience);
    holder = other_rank_zero(*store);
    if (holder)
      store->set_once("join/failed",
                      text("rank 0 of ", world.size, " came twice: ", *holder, " and ", process_name(),
                           "; give each process a RANK of its own, 0 to ", world.size - 1));
  } catch (const std::exception&) {
    // Not one of ours, or busy: the message below holds anyway.
  }
  const std::string who = holder ? text("another rank 0 (", *holder, ")") : "another program";
  throw ConfigError(text("port ", world.master_port, " at ", world.master_addr, " is in use by ", who,
                         "; set MASTER_PORT to a free port, the same on every rank"));
}

std::shared_ptr<KeyStore> open_store(const World& world, const std::string& address, milliseconds timeout) {
  if (world.rank != 0 || world.has_store) {
    if (!wait_for_listener(address, world.master_port, timeout))
      throw CommError(
          text("rank ", world.rank, " of ", world.size, " found no rank 0 at ", world.master_addr, ":",
               world.master_port, " after ", std::chrono::duration<double>(timeout).count(),
               " s. Start rank 0, correct MASTER_ADDR and MASTER_PORT, or wait longer with ddp_timeout"
               " (seconds)"));
    return reach_store(address, world.master_port, world.store_prefix, timeout);
  }
  const bool is_here_only = is_loopback(world.master_addr);
  int fd = world.listen_fd;
  if (fd < 0) fd = listen_on(is_here_only ? address : "", world.master_port);
  if (fd < 0) refuse_port(world, address);
  // Listening works on an interface that is down; reaching it would be tried until the timeout.
  if (is_here_only && !wait_for_listener(address, world.master_port, milliseconds(500))) {
    ::close(fd);
    throw ConfigError(text("this machine cannot reach itself at ", address,
                           "; bring its loopback interface up (ip link set lo up)"));
  }
  return serve_store(fd, is_here_only ? address : "127.0.0.1", world.master_port, timeout);
}

}  // namespace

Group connect(const World& world, const ConnectOptions& options) {
  if (world.size == 1) return {};
  const std::string address = numeric_address(world.master_addr);
  auto store = open_store(world, address, options.timeout);
  const bool is_here_only = world.local_size == world.size || is_loopback(world.master_addr);
  return join_group(std::move(store), world, own_address(address, is_here_only), options);
}

}  // namespace duoka::comm
