// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/optimizer.h"

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::train {

DecayGroups count_decay_groups(const std::vector<Parameter*>& parameters) {
  DecayGroups groups;
  for (const Parameter* parameter : parameters) {
    if (!parameter->is_trainable) continue;
    const int64_t numel = c10::multiply_integers(parameter->global_shape);
    if (parameter->has_weight_decay) {
      ++groups.num_decayed;
      groups.elements_decayed += numel;
    } else {
      ++groups.num_not_decayed;
      groups.elements_not_decayed += numel;
    }
  }
  return groups;
}

void require_fraction(const char* name, double value) {
  if (!(value >= 0 && value < 1)) throw ConfigError(text(name, " = ", value, "; wanted from 0 to below 1"));
}

void require_not_negative(const char* name, double value) {
  if (!(value >= 0)) throw ConfigError(text(name, " = ", value, "; wanted 0 or more"));
}

void make_state(Slot& slot, const char* name) {
  if (!slot.state.contains(name)) slot.state[name] = at::zeros_like(slot.master);
}

at::Tensor& state_of(Slot& slot, const char* name) {
  const auto found = slot.state.find(name);
  if (found == slot.state.end())
    throw StateError(text("optimizer step on ", slot.parameter->name, " without its ", name,
                          "; call Optimizer::prepare() first"));
  return found->second;
}

}  // namespace duoka::train
