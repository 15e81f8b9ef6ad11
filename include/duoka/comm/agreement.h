// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "duoka/comm/group.h"

namespace duoka::comm {

/// What a rank was started with, by key: "learning_rate" -> "0.0001".
using Facts = std::map<std::string, std::string>;

/// Returns when all ranks of `group` have the same facts. Collective. Throws ConfigError, the same on all
/// ranks, that names the first key with more than one value, a rank of fewer than the others and both values.
/// Sends 16 bytes a rank where they agree, all facts where they do not.
void require_same(const Facts& facts, const Group& group);

}  // namespace duoka::comm
