// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

/// Work on one row by many lanes, written once and run in two places: on a card each lane is a thread of a
/// block (card_lanes.cuh); on the host the lanes take turns, so that what a card will do is tested without
/// one. `Lanes` in the code of a row is either of them, and has
///
///   each(count, visit)                 visit(i) for i in [0, count); lane l has l, l + L, l + 2 L, …
///   fold(count, none, add, combine)    what all items come to, in every lane: a lane starts from `none` and
///                                      has add(state, i) for its items; states meet by combine(a, b), which
///                                      is commutative and to which `none` changes nothing
///   once(action)                       action() in one lane
///
/// Nothing of each() is seen by other lanes before the next fold().
namespace duoka {

/// Threads of a card that exchange registers: lanes of a fold meet within these first.
inline constexpr int warp_lanes = 32;

template <int num_lanes>
class HostLanes {
  static_assert(num_lanes % warp_lanes == 0 && num_lanes <= warp_lanes * warp_lanes);

 public:
  template <class Visit>
  void each(int64_t count, Visit visit) const {
    for (int lane = 0; lane < num_lanes; ++lane)
      for (int64_t i = lane; i < count; i += num_lanes) visit(i);
  }

  template <class State, class Add, class Combine>
  State fold(int64_t count, State none, Add add, Combine combine) const {
    State warps[warp_lanes];
    std::fill_n(warps, warp_lanes, none);
    for (int warp = 0; warp < num_lanes / warp_lanes; ++warp) {
      State states[warp_lanes];
      for (int lane = 0; lane < warp_lanes; ++lane) {
        states[lane] = none;
        for (int64_t i = warp * warp_lanes + lane; i < count; i += num_lanes) add(states[lane], i);
      }
      warps[warp] = halved(states, combine);
    }
    return halved(warps, combine);
  }

  template <class Action>
  void once(Action action) const {
    action();
  }

 private:
  /// The order in which a warp's exchange gives lane 0 its result.
  template <class State, class Combine>
  static State halved(State (&states)[warp_lanes], Combine combine) {
    for (int width = warp_lanes / 2; width > 0; width /= 2)
      for (int lane = 0; lane < width; ++lane) states[lane] = combine(states[lane], states[lane + width]);
    return states[0];
  }
};

}  // namespace duoka
