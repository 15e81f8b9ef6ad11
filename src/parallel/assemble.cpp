// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/assemble.h"

#include "duoka/comm/group.h"

namespace duoka::parallel {

std::unique_ptr<Engine> assemble(Chain& chain, const Plan& plan, const comm::Group& world,
                                 const EngineOptions& options) {
  resolve(plan, world.size());
  // With the data axis alone, its group is the world. A further axis is split off here, outermost first:
  // data, shard, context, pipeline, tensor.
  return std::make_unique<Engine>(chain, world, options);
}

}  // namespace duoka::parallel
