// SPDX-License-Identifier: Apache-2.0
#include "duoka/comm/local.h"

#include "comm/join.h"
#include "comm/key_store.h"

namespace duoka::comm {

LocalMeeting::LocalMeeting(int num_ranks) : num_ranks_(num_ranks), store_(store_in_process()) {}
LocalMeeting::~LocalMeeting() = default;

Group LocalMeeting::join(int rank, const ConnectOptions& options) {
  if (num_ranks_ == 1) return {};
  World world;
  world.rank = world.local_rank = rank;
  world.size = world.local_size = num_ranks_;
  return join_group(store_, world, world.master_addr, options);
}

}  // namespace duoka::comm
