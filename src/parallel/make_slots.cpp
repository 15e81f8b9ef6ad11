// SPDX-License-Identifier: Apache-2.0
#include "parallel/make_slots.h"

#include <utility>

#include <ATen/core/grad_mode.h>

#include "duoka/core/host_allocator.h"
#include "parallel/row_layout.h"
#include "parallel/slot_home.h"

namespace duoka::parallel {

namespace {

/// The part of a parameter that this rank owns.
struct Part {
  std::vector<int64_t> offset;
  at::Tensor visible;  ///< A view; undefined where this rank has none.
};

Part part_of(const Parameter& parameter, const comm::Group& shard, const ParameterShards* shards) {
  if (shard.size() == 1) return {parameter.offset, parameter.value};
  const RowLayout layout({&parameter.value, 1}, shard.size());
  if (layout.num_rows(0, shard.rank()) == 0) return {};
  Part part{parameter.offset,
            shards != nullptr ? shards->rows_of(parameter) : layout.rows(parameter.value, 0, shard.rank())};
  if (part.offset.empty())
    part.visible = part.visible.squeeze(0);  // no dims: one number, on the first rank
  else
    part.offset[0] += layout.first_row(0, shard.rank());
  return part;
}

}  // namespace

std::vector<Parameter*> trainable_of(const Chain& chain) {
  std::vector<Parameter*> trainable;
  for (Parameter* parameter : chain.parameters())
    if (parameter->is_trainable) trainable.push_back(parameter);
  return trainable;
}

void OwnedSlots::make_visible() const {
  for (size_t i = 0; i < slots.size(); ++i)  // offloaded masters are seen since they left
    if (!slots[i].home && !slots[i].master.is_same(visible[i])) visible[i].copy_(slots[i].master);
}

OwnedSlots make_slots(const Chain& chain, const SumGroups& groups, const ParameterShards* shards,
                      const std::function<at::Tensor(Parameter&)>& sum_of,
                      const std::shared_ptr<OffloadStore>& store) {
  const at::NoGradGuard no_grad;
  const MemoryScope scope(MemoryClass::optimizer);
  OwnedSlots owned;
  for (Parameter* parameter : trainable_of(chain)) {
    Part part = part_of(*parameter, groups.shard, shards);
    if (!part.visible.defined()) continue;
    Slot slot;
    slot.parameter = parameter;
    slot.offset = std::move(part.offset);
    // The same tensor, not a copy, when the dtype is the gradient's already.
    slot.master = part.visible.to(parameter->gradient_dtype());
    slot.grad = sum_of(*parameter).view(slot.master.sizes());
    slot.is_primary = groups.replicas_of(*parameter).rank() == 0;
    if (store) {
      slot.home = std::make_shared<SlotHome>(store, part.visible);
      slot.home->send(slot, /*is_changed=*/false);
      slot.home->wait_until_out();
    }
    owned.slots.push_back(std::move(slot));
    owned.visible.push_back(std::move(part.visible));
  }
  return owned;
}

std::vector<Piece> pieces_of(const Chain& chain, const SumGroups& groups, const ParameterShards* shards) {
  std::vector<Piece> pieces;
  for (const Parameter* parameter : chain.parameters()) {
    if (groups.replicas_of(*parameter).rank() != 0) continue;
    if (shards == nullptr) {
      if (groups.shard.rank() == 0)
        pieces.push_back({parameter->name, parameter->global_shape, parameter->offset, parameter->value});
      continue;
    }
    Part part = part_of(*parameter, groups.shard, shards);
    if (part.visible.defined())
      pieces.push_back(
          {parameter->name, parameter->global_shape, std::move(part.offset), std::move(part.visible)});
  }
  return pieces;
}

}  // namespace duoka::parallel
