// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/optimizer.h"

#include <set>
#include <sstream>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/host_allocator.h"
#include "duoka/core/text.h"

namespace duoka::train {

DecayGroups count_decay_groups(const std::vector<Parameter*>& parameters, const comm::Group& group) {
  std::ostringstream lines;
  for (const Parameter* parameter : parameters)
    if (parameter->is_trainable)
      lines << parameter->name << ' ' << c10::multiply_integers(parameter->global_shape) << ' '
            << parameter->has_weight_decay << '\n';
  DecayGroups groups;
  std::set<std::string> counted;
  for (const std::string& rank : comm::all_gather_text(lines.str(), group)) {
    std::istringstream in(rank);
    std::string name;
    int64_t numel = 0;
    for (bool is_decayed = false; in >> name >> numel >> is_decayed;) {
      if (!counted.insert(name).second) continue;
      ++(is_decayed ? groups.num_decayed : groups.num_not_decayed);
      (is_decayed ? groups.elements_decayed : groups.elements_not_decayed) += numel;
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
  const MemoryScope scope(MemoryClass::optimizer);
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
