// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "duoka/train/schedule.h"

namespace duoka::train {

inline constexpr const char* plateau_type = "reduce_lr_on_plateau";

/// Lowers the rate when the observed metric stops getting better, as torch's ReduceLROnPlateau.
/// Throws ConfigError when the factor is not in (0, 1), or counts are negative.
std::unique_ptr<Schedule> make_plateau(const ScheduleOptions& options);

}  // namespace duoka::train
