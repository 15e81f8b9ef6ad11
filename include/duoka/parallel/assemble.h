// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "duoka/parallel/engine.h"
#include "duoka/parallel/layout.h"

namespace duoka::parallel {

/// The one place where a model and a layout meet.
/// chain: what this rank has of the model, on its device. Both outlive the engine. Collective over
/// layout.world(). Throws as Engine's constructor does.
std::unique_ptr<Engine> assemble(Chain& chain, Layout& layout, const EngineOptions& options = {});

}  // namespace duoka::parallel
