// SPDX-License-Identifier: Apache-2.0
// A full training of tiny-llama under hybrid sharding, for two_hosts_test.cpp, that tells what its axes sent:
//   two_hosts_child rows.jsonl folder num_updates shard
#include <cstdio>
#include <cstdlib>

#include "duoka/comm/session.h"
#include "parallel/gradient_sums.h"
#include "train/small_training.h"

namespace duoka::testing {
namespace {

int64_t bytes_of(const std::vector<Parameter*>& parameters) {
  int64_t bytes = 0;
  for (const Parameter* parameter : parameters) {
    int64_t numel = 1;
    for (const int64_t size : parameter->global_shape) numel *= size;
    bytes += 4 * numel;
  }
  return bytes;
}

void train(const comm::Session& session, char** argv) {
  const SmallData data(argv[1]);
  SmallSetup setup;
  setup.is_adamw = true;
  setup.streams_per_update = 2 * session.group().size();
  setup.max_steps = std::atoi(argv[3]);
  setup.schedule.learning_rate = 1e-3;
  setup.plan = {.zero_stage = 3, .shard = std::atoi(argv[4])};
  SmallTraining training(setup, data, argv[2], session.group());
  const parallel::SumGroups& groups = training.engine().layout().sum_groups();
  int64_t own_bytes = 0;
  for (const auto& slot : training.engine().slots()) own_bytes += slot.grad.numel() * 4;
  groups.shard.traffic().reset();
  groups.slice_replicas.traffic().reset();
  groups.whole_replicas.traffic().reset();
  training.run();
  const comm::Traffic& copies = groups.whole_replicas.traffic();
  std::printf("rank=%d rows=%ld model=%ld head=%ld shard=%ld copies=%ld sums_of_copies=%ld\n",
              session.group().rank(), own_bytes, bytes_of(training.decoder().parameters()),
              bytes_of(training.decoder().chain().objective->parameters()),
              groups.shard.traffic().total().bytes,
              copies.total().bytes + groups.slice_replicas.traffic().total().bytes,
              copies.count(comm::Operation::all_reduce).bytes);
}

}  // namespace
}  // namespace duoka::testing

int main(int argc, char** argv) {
  if (argc < 5) return 1;
  return duoka::comm::run_main(
      argc, argv, [&](const duoka::comm::Session& session) { duoka::testing::train(session, argv); });
}
