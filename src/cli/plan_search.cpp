// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_search.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "duoka/core/error.h"

namespace duoka::cli {

using parallel::Plan;
using parallel::Workload;

namespace {

/// Shorter pieces of a row take longer to send round than to compute with.
constexpr int64_t least_tokens_of_row = 2048;

/// With so many micro-batches for each place a pipeline of like places is idle for less than a fifth of the
/// time.
constexpr int64_t least_micro_per_place = 4;

std::vector<int> divisors(int number) {
  std::vector<int> found;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0) found.push_back(i);
  return found;
}

/// Less is better.
auto order(const Candidate& candidate, const Cluster& cluster) {
  const Sent sent = sent_by(busiest(candidate.estimate, cluster), cluster);
  return std::tuple(sent.between, candidate.recompute, sent.inside,
                    fullest(candidate.estimate).memory.total());
}

/// The ways to share state among the data ranks of one layout: not at all, all of them, or those of a host.
std::vector<Plan> ways_to_shard(const Plan& layout, const Cluster& cluster) {
  std::vector<Plan> plans = {layout};
  const int data = cluster.num_cards / (layout.tensor * layout.context * layout.pipeline);
  const int in_host = cluster.cards_per_host() / (layout.tensor * layout.context);
  for (int stage = 1; stage <= 3; ++stage)
    for (const int shard : std::set{data, in_host}) {
      // One rank shares nothing, but for the ranks that have other tokens of its rows.
      if (shard < 1 || data % shard != 0 || shard * layout.context == 1) continue;
      plans.push_back(layout);
      plans.back().zero_stage = stage;
      plans.back().shard = shard;
    }
  return plans;
}

class Search {
 public:
  Search(const Workload& workload, const Cluster& cluster, int64_t memory_bytes, int64_t rows_per_update)
      : workload_(workload),
        cluster_(cluster),
        memory_bytes_(memory_bytes),
        rows_per_update_(rows_per_update) {}

  /// Looks at one layout; keeps its best way to shard that fits and, for want of such a one, the smallest.
  void look_at(const Plan& layout) {
    const int data = cluster_.num_cards / (layout.tensor * layout.context * layout.pipeline);
    if (rows_per_update_ % (workload_.rows * data) != 0) return;
    workload_.accumulation = rows_per_update_ / (workload_.rows * data);
    if (layout.pipeline > 1 && least_micro_per_place * layout.pipeline > workload_.accumulation) return;
    std::optional<Candidate> best;
    for (const Plan& plan : ways_to_shard(layout, cluster_))
      for (const bool recompute : {false, true}) {
        workload_.engine.recompute = recompute;
        std::optional<Candidate> found = candidate(plan);
        if (!found) continue;
        note_smallest(*found);
        if (fits(*found, memory_bytes_) && (!best || order(*found, cluster_) < order(*best, cluster_)))
          best = std::move(found);
      }
    if (best) fitting_.push_back(std::move(*best));
  }

  std::vector<Candidate> take() {
    std::ranges::sort(fitting_, [&](const Candidate& a, const Candidate& b) {
      return order(a, cluster_) < order(b, cluster_);
    });
    if (fitting_.empty() && smallest_) fitting_.push_back(std::move(*smallest_));
    return std::move(fitting_);
  }

 private:
  /// Nothing where the sizes do not fit the model.
  std::optional<Candidate> candidate(const Plan& plan) const {
    try {
      return Candidate{parallel::estimate(workload_, plan, cluster_.num_cards), workload_.accumulation,
                       workload_.engine.recompute};
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  }

  void note_smallest(const Candidate& found) {
    if (!smallest_ || fullest(found.estimate).memory.total() < fullest(smallest_->estimate).memory.total())
      smallest_ = found;
  }

  Workload workload_;
  const Cluster& cluster_;
  int64_t memory_bytes_, rows_per_update_;
  std::vector<Candidate> fitting_;
  std::optional<Candidate> smallest_;
};

}  // namespace

double Cluster::seconds(const parallel::TrafficEstimate& traffic) const {
  return has_speeds() ? traffic.wire_bytes() / ((is_inside(traffic) ? inside_gb_s : between_gb_s) * 1e9) : 0;
}

Sent sent_by(const parallel::RankEstimate& rank, const Cluster& cluster) {
  Sent sent;
  for (const parallel::TrafficEstimate& traffic : rank.traffic) {
    const bool is_inside = cluster.is_inside(traffic);
    (is_inside ? sent.inside : sent.between) += traffic.wire_bytes();
    (is_inside ? sent.inside_seconds : sent.between_seconds) += cluster.seconds(traffic);
  }
  return sent;
}

const parallel::RankEstimate& fullest(const parallel::Estimate& estimate) {
  return *std::ranges::max_element(estimate.ranks, {}, [](const auto& rank) { return rank.memory.total(); });
}

const parallel::RankEstimate& busiest(const parallel::Estimate& estimate, const Cluster& cluster) {
  return *std::ranges::max_element(estimate.ranks, {}, [&](const auto& rank) {
    const Sent sent = sent_by(rank, cluster);
    return std::pair(sent.between, sent.inside);
  });
}

bool fits(const Candidate& candidate, int64_t memory_bytes) {
  return fullest(candidate.estimate).memory.total() <= memory_bytes;
}

std::vector<Candidate> search_layouts(const Workload& workload, const Plan& plan, const Cluster& cluster,
                                      int64_t memory_bytes) {
  const Plan given = parallel::resolve(plan, cluster.num_cards);
  Search search(workload, cluster, memory_bytes, workload.rows * workload.accumulation * given.data);
  for (const int tensor : divisors(cluster.cards_per_host()))
    for (const int context : divisors(cluster.num_cards / tensor)) {
      if (context > 1 && workload.row_tokens / context < least_tokens_of_row) break;
      for (const int pipeline : divisors(cluster.num_cards / tensor / context)) {
        Plan layout = given;
        layout.data = layout.zero_stage = layout.shard = 0;
        layout.tensor = tensor, layout.context = context, layout.pipeline = pipeline;
        if (pipeline == 1) layout.schedule = Plan().schedule;
        if (pipeline == 1) layout.chunks = 1;
        layout.split.clear();
        search.look_at(layout);
      }
    }
  return search.take();
}

}  // namespace duoka::cli
