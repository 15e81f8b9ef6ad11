// SPDX-License-Identifier: Apache-2.0
#include "comm/join.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "comm/c10d_backend.h"
#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/log.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds poll_interval{50};
/// Said at most so many; a list of a thousand ranks helps nobody.
constexpr size_t max_named_ranks = 8;

std::string rank_key(int rank) { return text("join/rank/", rank); }

/// Rank 0 keeps the table: it stays until the others have read why.
void linger(const World& world) {
  if (world.rank == 0) std::this_thread::sleep_for(4 * poll_interval);
}

/// Tells all ranks, once, that the job cannot start.
[[noreturn]] void fail_for_all(KeyStore& store, const World& world, const std::string& why) {
  const std::string first = store.set_once("join/failed", why);
  linger(world);
  throw ConfigError(first);
}

void check_size(KeyStore& store, const World& world) {
  const std::string size = std::to_string(world.size);
  const std::string first = store.set_once("join/size", size);
  if (first == size) return;
  fail_for_all(store, world,
               text("rank ", world.rank, " was started as one of ", size, ", another rank as one of ", first,
                    "; give every rank the same number (WORLD_SIZE)"));
}

void enter(KeyStore& store, const World& world, const std::string& name) {
  const std::string holder = store.set_once(rank_key(world.rank), name);
  if (holder == name) return;
  fail_for_all(store, world,
               text("rank ", world.rank, " of ", world.size, " came twice: ", holder, " and ", name,
                    "; give each process a RANK of its own, 0 to ", world.size - 1));
}

std::vector<std::string> missing_ranks(KeyStore& store, int size) {
  std::vector<std::string> missing;
  for (int rank = 0; rank < size && missing.size() <= max_named_ranks; ++rank)
    if (!store.find(rank_key(rank))) missing.push_back(std::to_string(rank));
  if (missing.size() > max_named_ranks) missing.back() = "…";
  return missing;
}

std::string who_is_missing(KeyStore& store, int64_t num_joined, const World& world) {
  const auto missing = missing_ranks(store, world.size);
  return text(num_joined, " of ", world.size, " joined at ", world.master_addr, ":", world.master_port,
              "; missing: rank ", join(missing));
}

/// The user's word on near memory: DUOKA_NEAR_MEMORY=0 turns it off. Ranks that say different things have
/// none.
bool is_near_memory_wanted() {
  const char* word = std::getenv("DUOKA_NEAR_MEMORY");
  if (word == nullptr || std::string_view(word).empty() || std::string_view(word) == "1") return true;
  if (std::string_view(word) == "0") return false;
  throw ConfigError(text("DUOKA_NEAR_MEMORY = ", word, "; wanted 0 or 1"));
}

}  // namespace

void enter_join_table(KeyStore& store, const World& world, const std::string& name, milliseconds timeout) {
  const auto start = Clock::now();
  const Log log(world.rank, world.size);
  check_size(store, world);
  enter(store, world, name);
  store.add("join/count", 1);
  auto next_notice = start + seconds(10);
  milliseconds pause{1};  // most ranks come together; the more there are, the longer it takes
  while (true) {
    const int64_t num_joined = store.add("join/count", 0);
    if (num_joined >= world.size) return;
    if (const auto why = store.find("join/failed")) {
      linger(world);
      throw ConfigError(*why);
    }
    const auto now = Clock::now();
    if (now - start >= timeout) {
      const std::string missing = who_is_missing(store, num_joined, world);
      linger(world);
      throw CommError(text(missing, " after ", std::chrono::duration<double>(timeout).count(),
                           " s. Start what is missing, or wait longer with ddp_timeout (seconds)"));
    }
    if (now >= next_notice) {
      log.info(text("waiting: ", who_is_missing(store, num_joined, world)));
      next_notice = now + seconds(30);
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, timeout - (now - start)));
    pause = std::min(2 * pause, poll_interval);
  }
}

Group join_group(std::shared_ptr<KeyStore> store, const World& world, const std::string& address,
                 const ConnectOptions& options) {
  WiresOptions wires{.rank = world.rank,
                     .size = world.size,
                     .timeout = options.timeout,
                     .address = address,
                     .cuda_device = options.cuda_device};
  if (!is_near_memory_wanted()) wires.near_bytes = -1;
  enter_join_table(*store, world, process_name(), options.timeout);
  const Group group(options.axis, make_wires(std::move(store), wires));
  // Some may still be connecting: a rank that left now would be a connection that they never get.
  barrier(group);
  return group.renamed(options.axis);  // counts from here
}

std::string process_name() {
  // Counts joins, so that two threads of one process that claim the same rank are told apart too.
  static std::atomic<int> num_joins{0};
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return text("process ", getpid(), " on ", host, " (join ", ++num_joins, ")");
}

}  // namespace duoka::comm
