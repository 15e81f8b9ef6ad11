// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "duoka/train/schedule.h"

namespace duoka::train {

/// The factor of learning_rate at `step`, for options whose defaults are filled in.
using Curve = double (*)(const ScheduleOptions& options, int64_t step);

/// lr_scheduler_type -> curve, for the types that are pure functions of the step.
std::span<const std::pair<const char*, Curve>> schedule_curves();

}  // namespace duoka::train
