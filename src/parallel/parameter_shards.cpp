// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_shards.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "duoka/core/error.h"
#include "duoka/core/host_allocator.h"
#include "parallel/walk.h"

namespace duoka::parallel {

void ParameterShards::keep(Parameter& parameter) {
  const at::NoGradGuard no_grad;
  const RowLayout layout({&parameter.value, 1}, group_.size());
  const bool is_new =
      kept_
          .emplace(parameter.name,
                   layout.rows(parameter.value, 0, group_.rank()).clone(at::MemoryFormat::Contiguous))
          .second;
  if (!is_new) throw StateError("two parameters are called " + parameter.name);
  parameter.release();
}

std::vector<SetToFetch> sets_to_fetch(const Chain& chain) {
  const auto users = stages_of(chain);
  std::vector<SetToFetch> sets;
  for (Parameter* parameter : chain.parameters()) {
    const auto fits = [&](const SetToFetch& set) {
      const at::Tensor& other = set.parameters.front()->value;
      return set.stages == users.at(parameter) && other.scalar_type() == parameter->value.scalar_type() &&
             other.device() == parameter->value.device();
    };
    if (const auto found = std::ranges::find_if(sets, fits); found != sets.end())
      found->parameters.push_back(parameter);
    else
      sets.push_back({users.at(parameter), {parameter}});
  }
  return sets;
}

void ParameterShards::gather_for(const Chain& chain) {
  units_of_stage_.resize(chain.layers.size() + 1);
  for (auto& [stages, parameters] : sets_to_fetch(chain)) {
    for (const int64_t stage : stages) units_of_stage_[static_cast<size_t>(stage)].push_back(units_.size());
    add_unit(std::move(parameters));
  }
  kept_.clear();
}

void ParameterShards::add_unit(std::vector<Parameter*> parameters) {
  const at::NoGradGuard no_grad;
  const MemoryScope scope(MemoryClass::parameters);
  std::vector<at::Tensor> values;
  for (Parameter* parameter : parameters) {
    if (!kept_.contains(parameter->name)) keep(*parameter);
    values.push_back(parameter->value);
  }
  RowLayout layout(values, group_.size());
  at::Tensor own = at::zeros({layout.chunk()}, values.front().options());
  for (size_t i = 0; i < parameters.size(); ++i)
    layout.rows_in_chunk(own, i, group_.rank()).copy_(kept_.extract(parameters[i]->name).mapped());
  units_.push_back({std::move(parameters), std::move(values), std::move(layout), std::move(own), {}, {}, 0});
}

at::Tensor ParameterShards::rows_of(const Parameter& parameter) const {
  for (const Unit& unit : units_)
    for (size_t i = 0; i < unit.parameters.size(); ++i)
      if (unit.parameters[i] == &parameter) return unit.layout.rows_in_chunk(unit.own, i, group_.rank());
  throw StateError("no rows are kept of " + parameter.name);
}

void ParameterShards::start(Unit& unit) {
  unit.gathered = at::empty({group_.size(), unit.layout.chunk()}, unit.own.options());
  unit.pending = comm::start_all_gather_into(unit.gathered, unit.own, group_);
}

void ParameterShards::prefetch(int64_t stage) {
  for (const size_t index : units_of_stage_[static_cast<size_t>(stage)])
    if (Unit& unit = units_[index]; unit.num_users == 0 && !unit.gathered.defined()) start(unit);
}

void ParameterShards::acquire(int64_t stage) {
  prefetch(stage);
  for (const size_t index : units_of_stage_[static_cast<size_t>(stage)]) {
    Unit& unit = units_[index];
    if (unit.num_users++ > 0) continue;
    unit.pending.wait();
    std::vector<at::Tensor> whole;
    for (Parameter* parameter : unit.parameters) whole.push_back(parameter->restore());
    unit.layout.unpack(unit.gathered, whole);
    unit.gathered.reset();
  }
}

void ParameterShards::release(int64_t stage) {
  for (const size_t index : units_of_stage_[static_cast<size_t>(stage)]) {
    Unit& unit = units_[index];
    if (--unit.num_users > 0) continue;
    for (Parameter* parameter : unit.parameters) parameter->release();
  }
}

}  // namespace duoka::parallel
