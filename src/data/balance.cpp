// SPDX-License-Identifier: Apache-2.0
#include "data/balance.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <set>
#include <utility>

namespace duoka::data {

namespace {

using Groups = std::vector<std::vector<int64_t>>;

/// 0 to n - 1, dearest first; of equal ones the earlier first.
std::vector<size_t> dearest_first(std::span<const int64_t> costs) {
  std::vector<size_t> items(costs.size());
  std::iota(items.begin(), items.end(), size_t{0});
  std::stable_sort(items.begin(), items.end(), [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  return items;
}

/// The groups so far and what each costs.
struct Dealt {
  Groups groups;
  std::vector<int64_t> sums;
};

Dealt deal(std::span<const int64_t> costs, size_t room) {
  Groups groups((costs.size() + room - 1) / room);
  std::vector<int64_t> sums(groups.size());
  std::set<std::pair<int64_t, size_t>> open;  // (cost, group) of those with room.
  for (size_t group = 0; group < groups.size(); ++group) open.emplace(0, group);
  for (const size_t item : dearest_first(costs)) {
    const size_t group = open.extract(open.begin()).value().second;
    groups[group].push_back(static_cast<int64_t>(item));
    sums[group] += costs[item];
    if (groups[group].size() < room) open.emplace(sums[group], group);
  }
  return {std::move(groups), std::move(sums)};
}

/// Swaps the two items of the dearest and the cheapest group that bring these closest. Whether any did.
bool swap_best(std::span<const int64_t> costs, Dealt& dealt) {
  auto& [groups, sums] = dealt;
  const auto dear = static_cast<size_t>(std::max_element(sums.begin(), sums.end()) - sums.begin());
  const auto cheap = static_cast<size_t>(std::min_element(sums.begin(), sums.end()) - sums.begin());
  const int64_t apart = sums[dear] - sums[cheap];
  int64_t least = apart;
  std::pair<int64_t*, int64_t*> best;
  for (int64_t& a : groups[dear])
    for (int64_t& b : groups[cheap]) {
      const int64_t more = costs[static_cast<size_t>(a)] - costs[static_cast<size_t>(b)];
      if (std::abs(apart - 2 * more) >= least) continue;
      least = std::abs(apart - 2 * more);
      best = {&a, &b};
    }
  if (best.first == nullptr) return false;
  const int64_t moved = costs[static_cast<size_t>(*best.first)] - costs[static_cast<size_t>(*best.second)];
  std::swap(*best.first, *best.second);
  sums[dear] -= moved;
  sums[cheap] += moved;
  return true;
}

/// The number whose Gray code n ^ (n >> 1) is `code`.
size_t from_gray(size_t code) {
  for (size_t shift = 1; shift < sizeof(code) * 8; shift *= 2) code ^= code >> shift;
  return code;
}

}  // namespace

Groups balanced(std::span<const int64_t> costs, int64_t room) {
  Dealt dealt = deal(costs, static_cast<size_t>(room));
  for (size_t swaps = 0; swaps < dealt.groups.size() && swap_best(costs, dealt);) ++swaps;
  const std::vector<size_t> order = dearest_first(dealt.sums);
  Groups placed;
  for (size_t at = 0; at < std::bit_ceil(order.size()); ++at) {
    const size_t next = from_gray(at);
    if (next >= order.size()) continue;
    placed.push_back(std::move(dealt.groups[order[next]]));
    std::sort(placed.back().begin(), placed.back().end());
  }
  return placed;
}

}  // namespace duoka::data
