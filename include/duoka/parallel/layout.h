// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "duoka/comm/mesh.h"
#include "duoka/core/layer_range.h"
#include "duoka/core/parameter.h"
#include "duoka/model/context_axis.h"
#include "duoka/model/tensor_axis.h"
#include "duoka/parallel/plan.h"
#include "duoka/parallel/stack.h"

namespace duoka::parallel {

class ParameterShards;
struct SumGroups;

/// Where this rank stands in a plan, and the groups that takes: made before the model, which is loaded by it.
///
///   Layout layout(plan, world);
///   layout.share_layers(stack_of(config));
///   … load the model's layout.layers() with the layout's axes, calling layout.keep(parameter) for each
///   parameter read … auto engine = assemble(chain, layout, options);
///
/// Not copyable; outlives its engine.
class Layout final {
 public:
  /// Collective over `world`. Throws as resolve() does.
  Layout(const Plan& plan, const comm::Group& world);
  ~Layout();
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  const Plan& plan() const { return plan_; }  ///< Resolved.
  const comm::Mesh& mesh() const { return mesh_; }
  const comm::Group& world() const { return mesh_.world(); }

  /// Which micro-batches this rank computes, or takes part in computing: number rank, rank + size, … of an
  /// update.
  struct DataShare {
    int rank = 0;
    int size = 1;
    bool is_first = true;  ///< Of the ranks with the same micro-batches: the one that counts their tokens.
  };
  DataShare data_share() const;

  /// Decides which layers this rank of a pipeline holds: those of plan.split, or spread by their costs. Must
  /// be called with plan.pipeline > 1, before the model is made; else does nothing. Collective. Throws
  /// ConfigError when there are too few layers or the split does not fit.
  void share_layers(const Stack& stack);
  /// This rank's layers, a range for each of its chunks; empty: all.
  const std::vector<LayerRange>& layers() const { return layers_; }
  bool has_layer(int64_t layer) const;
  int64_t width() const { return width_; }  ///< The stack's.
  /// The ranks that share the layers of one copy, first layers first.
  const comm::Group& pipeline_group() const { return pipeline_group_; }

  /// What a model's layers share with other ranks: for its constructor or loader.
  std::shared_ptr<const model::TensorAxis> tensor_axis() const { return tensor_axis_; }
  std::shared_ptr<const model::ContextAxis> context_axis() const { return context_axis_; }

  /// To be called for each parameter as soon as it has been read, and before the next is: with ZeRO-3 this
  /// rank keeps its rows and gives the memory back. Parameters it is not called for are taken when the engine
  /// is made.
  void keep(Parameter& parameter);

  /// For the engine.
  const SumGroups& sum_groups() const { return *sum_groups_; }
  ParameterShards* shards() { return shards_.get(); }  ///< Null unless parameters are sharded.

 private:
  Plan plan_;
  comm::Mesh mesh_;
  std::unique_ptr<SumGroups> sum_groups_;
  std::shared_ptr<const model::TensorAxis> tensor_axis_;
  std::shared_ptr<const model::ContextAxis> context_axis_;
  std::unique_ptr<ParameterShards> shards_;
  comm::Group pipeline_group_;
  std::vector<LayerRange> layers_;
  int64_t width_ = 0;
};

}  // namespace duoka::parallel
