// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>

#include "duoka/core/error.h"
#include "duoka/train/optimizer.h"
#include "train/optimizer_state.h"

namespace duoka::train {

namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options) {
    require_fraction("momentum", options.momentum);
    require_not_negative("weight_decay", options.weight_decay);
    if (options.nesterov && options.momentum == 0)
      throw ConfigError("nesterov with momentum = 0; give a momentum above 0 or leave nesterov out");
  }

  void prepare(std::span<Slot> slots) const override {
    if (options_.momentum == 0) return;
    // A zero buffer gives momentum * 0 + g = g in the first step, as torch's copy of the gradient does.
    visit_slots(slots, SlotUse::read, [](std::span<Slot> some) {
      for (Slot& slot : some) make_state(slot, "momentum_buffer");
    });
  }

  void step(std::span<Slot> slots, double lr) const override {
    const at::NoGradGuard no_grad;
    visit_slots(slots, SlotUse::update, [&](std::span<Slot> some) {
      for (Slot& slot : some) update(slot, lr);
    });
  }

  int64_t state_bytes_per_element(int64_t element_size) const override {
    return options_.momentum == 0 ? 0 : element_size;
  }

 private:
  void update(Slot& slot, double lr) const {
    at::Tensor direction = slot.grad;
    if (options_.weight_decay != 0 && slot.parameter->has_weight_decay)
      direction = direction.add(slot.master, options_.weight_decay);
    if (options_.momentum != 0) {
      at::Tensor& buffer = state_of(slot, "momentum_buffer");
      buffer.mul_(options_.momentum).add_(direction);
      direction = options_.nesterov ? direction.add(buffer, options_.momentum) : buffer;
    }
    slot.master.add_(direction, -lr);
  }

  SgdOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const SgdOptions& options) { return std::make_unique<Sgd>(options); }

}  // namespace duoka::train
