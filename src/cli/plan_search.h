// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "duoka/parallel/estimate.h"

namespace duoka::cli {

/// Cards as they stand in hosts, and what one of them sends in a second: inside its host, and to another.
struct Cluster {
  int num_cards = 1;
  int num_hosts = 1;
  double inside_gb_s = 0;  ///< 10^9 bytes a second; 0: not known.
  double between_gb_s = 0;

  int cards_per_host() const { return num_cards / num_hosts; }
  /// Whether such a group's ranks all stand in one host.
  bool is_inside(const parallel::TrafficEstimate& traffic) const {
    return cards_per_host() % traffic.span == 0;
  }
  bool has_speeds() const { return inside_gb_s > 0; }
  /// By its bytes alone, at the speed of the slowest way that the group goes.
  double seconds(const parallel::TrafficEstimate& traffic) const;
};

/// What a card sends in an update.
struct Sent {
  double inside = 0, between = 0;  ///< Bytes.
  double inside_seconds = 0, between_seconds = 0;
};
Sent sent_by(const parallel::RankEstimate& rank, const Cluster& cluster);
/// Of the card that needs most memory, and of the one that sends most (between hosts, then inside).
const parallel::RankEstimate& fullest(const parallel::Estimate& estimate);
const parallel::RankEstimate& busiest(const parallel::Estimate& estimate, const Cluster& cluster);

/// One way to spread a training.
struct Candidate {
  parallel::Estimate estimate;
  int64_t accumulation = 1;
  bool recompute = false;
};

/// Whether no card needs more than `memory_bytes`.
bool fits(const Candidate& candidate, int64_t memory_bytes);

/// Layouts for the rows an update has under `plan` in which no card needs more than `memory_bytes`, one for
/// each product of tensor, context and pipeline ranks, best first: by bytes between hosts, then by those
/// inside. Tensor ranks stay inside a host, a pipeline has four micro-batches for each of its places, and a
/// card at least 2,048 tokens of a row. Where none fits, the one that needs least.
std::vector<Candidate> search_layouts(const parallel::Workload& workload, const parallel::Plan& plan,
                                      const Cluster& cluster, int64_t memory_bytes);

}  // namespace duoka::cli
