// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "duoka/parallel/engine.h"
#include "duoka/parallel/plan.h"

namespace duoka::parallel {

/// The one place where a model, a layout and the ranks meet. Order: the plan is resolved against the size of
/// `world`, the group of each axis is made, the engine is built on them.
/// chain: the whole model on this rank's device, alive as long as the engine. Collective over `world`.
/// Throws as resolve() and Engine's constructor do.
std::unique_ptr<Engine> assemble(Chain& chain, const Plan& plan, const comm::Group& world,
                                 const EngineOptions& options = {});

}  // namespace duoka::parallel
