// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "comm/wires.h"
#include "duoka/comm/collectives.h"
#include "duoka/comm/duplicate.h"
#include "duoka/comm/group.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

/// `size` ranks of `group`, of which this is number `rank`, over new wires. `label` is the same on all of
/// them and nowhere else: how often the group was split, and which ranks they are.
Group on_new_wires(const Group& group, const std::string& label, int rank, int size,
                   const std::string& axis) {
  try {
    return {axis, group.wires()->split(text(axis, "/", label), rank, size)};
  } catch (const Error& error) {
    throw CommError(
        text("while ", size, " of ", group.size(), " ranks made axis '", axis, "': ", error.what()));
  }
}

}  // namespace

Group split(const Group& group, int color, const std::string& axis) {
  if (group.size() == 1) return {};
  const std::string own = std::to_string(color);
  const std::vector<std::string> colors = all_gather_text(own, group);
  std::vector<int> members;
  int rank = 0;
  for (int peer = 0; peer < group.size(); ++peer) {
    if (colors[static_cast<size_t>(peer)] != own) continue;
    if (peer == group.rank()) rank = static_cast<int>(members.size());
    members.push_back(peer);
  }
  if (static_cast<int>(members.size()) == group.size()) return group.renamed(axis);
  const int number = group.wires()->next_split();  // counted by those who stay alone, too
  if (members.size() == 1) return {};
  return on_new_wires(group, text(number, "/", color), rank, static_cast<int>(members.size()), axis);
}

Group duplicate(const Group& group, const std::string& axis) {
  if (group.size() == 1) return {};
  return on_new_wires(group, text(group.wires()->next_split(), "/all"), group.rank(), group.size(), axis);
}

}  // namespace duoka::comm
