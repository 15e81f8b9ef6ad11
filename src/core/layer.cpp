// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/layer.h"

#include <unordered_set>

namespace duoka {

std::vector<Parameter*> Chain::parameters() const {
  std::vector<Parameter*> all;
  std::unordered_set<Parameter*> seen;
  const auto add = [&](const std::vector<Parameter*>& some) {
    for (Parameter* parameter : some)
      if (seen.insert(parameter).second) all.push_back(parameter);
  };
  for (const auto& layer : layers) add(layer->parameters());
  if (objective) add(objective->parameters());
  return all;
}

}  // namespace duoka
