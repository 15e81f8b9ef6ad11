// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "duoka/comm/group.h"
#include "duoka/parallel/slot.h"

namespace duoka::train {

using parallel::Slot;
using parallel::SlotUse;

/// Updates the masters of slots from their gradients. Stateless itself: moments and step counts live in
/// Slot::state, so that checkpoints and layouts need not know which optimizer it is.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Makes the missing entries of Slot::state, zero, in the dtype and on the device of the master. Call once,
  /// before the first step and before a checkpoint is loaded into the slots.
  virtual void prepare(std::span<Slot> slots) const = 0;

  /// One update with learning rate `lr`. Reads Slot::grad, changes Slot::master and Slot::state.
  /// Throws StateError when a slot was not prepared.
  virtual void step(std::span<Slot> slots, double lr) const = 0;

  /// Bytes of state per element of a master with `element_size` bytes, for a memory plan.
  virtual int64_t state_bytes_per_element(int64_t element_size) const = 0;
};

/// Decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2), as torch.optim.AdamW. State: exp_avg,
/// exp_avg_sq, step. Weight decay applies where Parameter::has_weight_decay (not to norms and biases).
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

/// As torch.optim.SGD without dampening; weight decay is added to the gradient. State: momentum_buffer when
/// momentum is not 0.
struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};

/// Both throw ConfigError on values out of range (betas and momentum in [0, 1), the others >= 0, nesterov
/// needs momentum).
std::unique_ptr<Optimizer> make_adamw(const AdamWOptions& options);
std::unique_ptr<Optimizer> make_sgd(const SgdOptions& options);

/// Trainable tensors, whole ones, with and without weight decay: for the start-up lines. Those of all ranks
/// of `group` (the stages of a pipeline), one that several hold counted once. Collective.
struct DecayGroups {
  int64_t num_decayed = 0;
  int64_t num_not_decayed = 0;
  int64_t elements_decayed = 0;
  int64_t elements_not_decayed = 0;
};
DecayGroups count_decay_groups(const std::vector<Parameter*>& parameters, const comm::Group& group = {});

}  // namespace duoka::train
