// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace duoka::data {

/// Deals items of these costs into ceil(items / room) groups of at most `room`, so that the groups cost about
/// the same: the dearest first, each to the cheapest group with room (LPT; Graham, Bounds on Multiprocessing
/// Timing Anomalies, 1969), then a few swaps between the dearest and the cheapest group. Items of a group
/// keep their order. A pure function.
///
/// Groups that stand next to each other cost nearly the same, and so do the sums of groups r, r + R, r + 2R,
/// … for each r, where R is 2, 4, 8 …: of the groups, dearest first, the one whose number is the inverse Gray
/// code of i comes i-th, so that after each power of two of groups the next come in reverse.
std::vector<std::vector<int64_t>> balanced(std::span<const int64_t> costs, int64_t room);

}  // namespace duoka::data
