// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "comm/wires.h"
#include "duoka/comm/collectives.h"
#include "duoka/comm/group.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

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
  if (members.size() == 1) return {};
  // The same on all members and on nobody else: the axis, how often this group was split, the color.
  const std::string label = text(axis, "/", group.wires()->next_split(), "/", color);
  try {
    return {axis, group.wires()->split(label, rank, static_cast<int>(members.size()))};
  } catch (const Error& error) {
    throw CommError(text("while ", members.size(), " of ", group.size(), " ranks made axis '", axis,
                         "': ", error.what()));
  }
}

}  // namespace duoka::comm
