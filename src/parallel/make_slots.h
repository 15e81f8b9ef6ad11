// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/offload_store.h"
#include "duoka/core/layer.h"
#include "duoka/parallel/slot.h"
#include "parallel/gradient_sums.h"
#include "parallel/parameter_shards.h"
#include "parallel/whole_parameters.h"

namespace duoka::parallel {

std::vector<Parameter*> trainable_of(const Chain& chain);

/// What this rank's optimizer owns.
struct OwnedSlots {
  std::vector<Slot> slots;
  /// For each slot the memory in which its numbers become visible to layers, in the parameter's dtype; the
  /// slot's own master where the dtype is the same.
  std::vector<at::Tensor> visible;

  /// Copies each master there.
  void make_visible() const;
};

/// A slot for each trainable parameter: all of what is held here, or this rank's rows of it. shards: null, or
/// where the rows of parameters are. sum_of: as GradientSums::sum_of(). store: null, or where masters go as
/// soon as they are made.
OwnedSlots make_slots(const Chain& chain, const SumGroups& groups, const ParameterShards* shards,
                      const std::function<at::Tensor(Parameter&)>& sum_of,
                      const std::shared_ptr<OffloadStore>& store = nullptr);

/// This rank's part of every parameter, trainable or not: the ranks' parts make up each parameter once.
std::vector<Piece> pieces_of(const Chain& chain, const SumGroups& groups, const ParameterShards* shards);

}  // namespace duoka::parallel
