// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros.h>

#include "duoka/train/optimizer.h"
#include "train/optimizer_state.h"

namespace duoka::train {

namespace {

/// What one call of the fused kernel takes: all tensors of it share one weight decay, dtype and device.
struct Batch {
  std::vector<at::Tensor> masters, grads, exp_avgs, exp_avg_sqs, steps;
};

class AdamW final : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options) : options_(options) {
    require_fraction("adam_beta1", options.beta1);
    require_fraction("adam_beta2", options.beta2);
    require_not_negative("adam_epsilon", options.epsilon);
    require_not_negative("weight_decay", options.weight_decay);
  }

  void prepare(std::span<Slot> slots) const override {
    visit_slots(slots, SlotUse::read, [](std::span<Slot> some) {
      for (Slot& slot : some) {
        make_state(slot, "exp_avg");
        make_state(slot, "exp_avg_sq");
        // A tensor of its own, as in torch: the kernel wants it so, and a layer unfrozen later starts from 0.
        if (!slot.state.contains("step"))
          slot.state["step"] = at::zeros({}, slot.master.options().dtype(at::kFloat));
      }
    });
  }

  void step(std::span<Slot> slots, double lr) const override {
    const at::NoGradGuard no_grad;
    visit_slots(slots, SlotUse::update, [&](std::span<Slot> some) { update(some, lr); });
  }

  int64_t state_bytes_per_element(int64_t element_size) const override { return 2 * element_size; }

 private:
  void update(std::span<Slot> slots, double lr) const {
    for (const bool is_decayed : {true, false}) {
      size_t begin = 0;
      while (begin < slots.size()) {
        Batch batch;
        begin = gather(slots, begin, is_decayed, batch);
        if (!batch.masters.empty()) update(batch, lr, is_decayed ? options_.weight_decay : 0);
      }
    }
  }

  /// Fills `batch` with the slots of one group from `begin` on, while dtype and device stay the same.
  /// Returns where it stopped.
  static size_t gather(std::span<Slot> slots, size_t begin, bool is_decayed, Batch& batch) {
    for (size_t i = begin; i < slots.size(); ++i) {
      Slot& slot = slots[i];
      if (slot.parameter->has_weight_decay != is_decayed) continue;
      if (!batch.masters.empty() && (batch.masters.back().scalar_type() != slot.master.scalar_type() ||
                                     batch.masters.back().device() != slot.master.device()))
        return i;
      batch.masters.push_back(slot.master);
      batch.grads.push_back(slot.grad);
      batch.exp_avgs.push_back(state_of(slot, "exp_avg"));
      batch.exp_avg_sqs.push_back(state_of(slot, "exp_avg_sq"));
      batch.steps.push_back(state_of(slot, "step"));
    }
    return slots.size();
  }

  void update(Batch& b, double lr, double weight_decay) const {
    at::_foreach_add_(b.steps, 1);
    at::_fused_adamw_(b.masters, b.grads, b.exp_avgs, b.exp_avg_sqs, {}, b.steps, lr, options_.beta1,
                      options_.beta2, weight_decay, options_.epsilon, /*amsgrad=*/false, /*maximize=*/false);
  }

  AdamWOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const AdamWOptions& options) {
  return std::make_unique<AdamW>(options);
}

}  // namespace duoka::train
