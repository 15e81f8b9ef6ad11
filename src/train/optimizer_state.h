// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "duoka/parallel/slot.h"

// What the optimizers share.

namespace duoka::train {

/// Throw ConfigError naming the option.
void require_fraction(const char* name, double value);
void require_not_negative(const char* name, double value);

/// Makes Slot::state[name], zero, like the master, unless it is there.
void make_state(parallel::Slot& slot, const char* name);

/// Slot::state[name]. Throws StateError when prepare() did not make it.
at::Tensor& state_of(parallel::Slot& slot, const char* name);

}  // namespace duoka::train
