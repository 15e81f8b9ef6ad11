// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <memory>
#include <mutex>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/c10d_backend.h"
#include "comm/near_collectives.h"

namespace duoka::comm {

/// The tag of near memory's meetings; nobody else sends with it.
inline constexpr int near_tag = std::numeric_limits<int>::max();

/// Finds out whether every rank of `gloo` can read the memory of every other, and wants to
/// (options.near_bytes, the same on all); null on all ranks if one cannot. Collective; two small collectives.
/// Throws what c10d throws.
///
/// The ranks meet over the same connections as Gloo's own collectives, from another thread at any time, but
/// point to point: a collective takes the next number of a sequence that must be the same on all ranks, so
/// one that came in between from the other thread would be taken for another on some rank. Messages between
/// two ranks with one tag arrive in the order they were sent, which is the order of calls on both. `calls` is
/// held by whoever calls the backend, which is not made for two threads at once.
std::unique_ptr<NearCollectives> connect_near(c10::intrusive_ptr<c10d::Backend> gloo,
                                              std::shared_ptr<std::mutex> calls, const WiresOptions& options);

}  // namespace duoka::comm
