// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "duoka/comm/group.h"

namespace duoka::test {

/// How long tests wait for what must come: so much longer than it takes, also on a machine that is busy, that
/// a wait which ends by it is a failure. CTest's own limit (duoka_test() in cmake/) is longer.
inline constexpr std::chrono::seconds patience{240};

/// Runs `body` as `num_ranks` ranks at once: threads of this process, each with a real Gloo group (axis
/// "data") over loopback, or the solo group for one rank. Link duoka_test_ranks.
///
/// Each rank computes with one thread, whatever `num_ranks`, so that sums on one rank and on several round
/// alike; the caller's thread count is put back. The error that came first is rethrown when all are done
/// (it ends the others: their collectives fail). Ranks that are not done after `timeout` are a failure of the
/// whole test program: it says so and exits, for a thread cannot be stopped.
/// GoogleTest: use EXPECT_* in the body, not ASSERT_*, which would only leave that thread's function.
void run_ranks(int num_ranks, const std::function<void(const comm::Group&)>& body,
               std::chrono::milliseconds timeout = patience);

}  // namespace duoka::test
