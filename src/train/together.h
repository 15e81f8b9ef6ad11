// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "duoka/comm/group.h"

namespace duoka::train {

/// Runs `body` on this rank, then waits for the others; when it threw on any rank, throws on all: there its
/// own error, elsewhere a SystemError naming the rank. Collective; `body` itself must not talk to other
/// ranks.
void together(const comm::Group& group, const std::function<void()>& body);

}  // namespace duoka::train
