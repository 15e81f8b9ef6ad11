// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "duoka/comm/traffic.h"

namespace duoka::comm {

class Wires;

/// The ranks of one axis of the mesh, and the wires between them. A value: copies share wires and counts.
///
/// A default-made group is solo (rank 0 of 1, no wires); every collective over it is the identity, so code
/// for many cards runs on one without a branch. Made by connect() (world.h), or by LocalMeeting (local.h)
/// for threads of one process. Collectives over one group are issued from one thread at a time, in the
/// same order on every rank.
///
/// When the last copy goes the wires are closed, which ends the peers' pending collectives with an error.
/// Closing never waits for a peer.
class Group final {
 public:
  Group();
  /// For those who make wires; see src/comm/wires.h.
  Group(std::string axis, std::shared_ptr<Wires> wires);

  int rank() const;
  int size() const;
  /// Name of the mesh axis, as errors and counts give it: "data".
  const std::string& axis() const;
  /// Longest time one collective may take.
  std::chrono::milliseconds timeout() const;
  Traffic& traffic() const;

  /// "gloo", "gloo + nccl"; "none" when solo.
  std::string transport() const;
  /// Null when solo.
  Wires* wires() const;
  /// The same wires under another name, with counts of their own.
  Group renamed(std::string axis) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// The ranks of `group` that give the same `color` form a new group, in their old order, over wires of its
/// own; `axis` names it. Solo where there is one of a color; a copy of `group` (with its own counts) shares
/// the wires where there is one color. Collective over `group`; makes a connection to each peer. Throws
/// CommError.
Group split(const Group& group, int color, const std::string& axis);

}  // namespace duoka::comm
