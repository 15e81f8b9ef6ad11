// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "duoka/core/exact_sum.h"
#include "duoka/parallel/slot.h"

namespace duoka::comm {
class Group;
}

namespace duoka::train {

using parallel::Slot;

/// Two numbers of one update, the same bits on every rank.
struct LossAndNorm {
  double loss = 0;  ///< Mean over the trained tokens of the whole update.
  double norm = 0;  ///< Euclidean norm of the whole model's gradient, before clipping.
};

/// Adds up the ranks' sums of the loss, for the mean over `trained_tokens` (those of the whole update), and
/// their parts of the gradient's norm. Collective over `group` (one message of about 1 KB). Each slice counts
/// once, on its primary rank: the squares of a row in f64, the rows in an ExactSum. So on CPUs neither the
/// threads, the ranks nor how they share the rows of a tensor change the norm. Not finite when any gradient
/// is not. Call after Engine::finish_gradients(), with Engine::group().
LossAndNorm sum_loss_and_norm(ExactSum loss_sum, int64_t trained_tokens, std::span<const Slot> slots,
                              const comm::Group& group);

/// Scales all gradients by max_norm / (norm + 1e-6) when that is below 1, as torch's clip_grad_norm_.
/// max_norm 0: no clipping. Leaves gradients alone when `norm` is not finite.
/// Returns the factor applied, 1 when none.
double clip_gradients(std::span<Slot> slots, double norm, double max_norm);

/// The policy for gradients or a loss that are not finite: stop, before the weights are touched. All ranks
/// throw together, for `update` is the same on each.
/// Throws ConfigError naming the step (counted from 1), both numbers and what to try.
void require_finite(const LossAndNorm& update, int64_t step);

}  // namespace duoka::train
