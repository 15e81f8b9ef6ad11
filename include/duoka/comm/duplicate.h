// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "duoka/comm/group.h"

namespace duoka::comm {

/// The ranks of `group` over wires of its own (split() with one color shares them), named `axis`: for
/// transfers whose order is not that of the group's other ones. Solo where `group` is. Collective over
/// `group`; makes a connection to each peer. Throws CommError.
Group duplicate(const Group& group, const std::string& axis);

}  // namespace duoka::comm
