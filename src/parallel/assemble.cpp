// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/assemble.h"

namespace duoka::parallel {

std::unique_ptr<Engine> assemble(Chain& chain, Layout& layout, const EngineOptions& options) {
  return std::make_unique<Engine>(chain, layout, options);
}

}  // namespace duoka::parallel
