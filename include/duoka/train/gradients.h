// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "duoka/parallel/slot.h"

namespace duoka::comm {
class Group;
}

namespace duoka::train {

using parallel::Slot;

/// Euclidean norm of the whole model's gradient, the same bits on every rank of `group` (collective; one
/// f64 is summed). Each slice counts once, on its primary rank, in the order of slots, accumulated in f64, so
/// that neither threads nor ranks change it. Not a number or infinite when any gradient is.
double gradient_norm(std::span<const Slot> slots, const comm::Group& group);

/// Scales all gradients by max_norm / (norm + 1e-6) when that is below 1, as torch's clip_grad_norm_.
/// max_norm 0: no clipping. Leaves gradients alone when `norm` is not finite.
/// Returns the factor applied, 1 when none.
double clip_gradients(std::span<Slot> slots, double norm, double max_norm);

/// The policy for gradients or a loss that are not finite: stop, before the weights are touched. All ranks
/// throw together, as `norm` and `mean_loss` are the same on each.
/// Throws ConfigError naming the step (1-based), both numbers and what to try.
void require_finite(double mean_loss, double norm, int64_t step);

}  // namespace duoka::train
