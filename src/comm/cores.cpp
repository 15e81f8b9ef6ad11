// SPDX-License-Identifier: Apache-2.0
#include "comm/cores.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include <sched.h>

namespace duoka::comm {

namespace {

/// Cores' worth of time this control group may use (version 2, then 1); 0 when not limited.
double quota_in_cores() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0) return std::stod(quota) / period;
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double limit = 0;
  if (v1_quota >> limit && v1_period >> period && limit > 0 && period > 0) return limit / period;
  return 0;
}

}  // namespace

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

int usable_cores() {
  auto num_cores = static_cast<int>(allowed_cores().size());
  // More than CPU_SETSIZE cores: the kernel refuses the small set.
  if (num_cores == 0) num_cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const double quota = quota_in_cores();
  return quota > 0 ? std::clamp(static_cast<int>(std::ceil(quota)), 1, num_cores) : num_cores;
}

std::vector<int> share_of_cores(std::span<const int> cores, int rank, int num_ranks) {
  const auto index = static_cast<size_t>(rank);
  const auto num_shares = static_cast<size_t>(num_ranks);
  if (cores.size() < num_shares) return {cores.begin(), cores.end()};
  const size_t each = cores.size() / num_shares;
  const size_t left_over = cores.size() % num_shares;
  const auto part =
      cores.subspan(index * each + std::min(index, left_over), each + (index < left_over ? 1 : 0));
  return {part.begin(), part.end()};
}

}  // namespace duoka::comm
