// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/layout.h"

#include <algorithm>

#include "duoka/comm/duplicate.h"
#include "duoka/parallel/context_axis.h"
#include "duoka/parallel/tensor_axis.h"
#include "parallel/gradient_sums.h"
#include "parallel/parameter_shards.h"

namespace duoka::parallel {

namespace {

using comm::Axis;

// Every rank asks for the same groups in the same order.
std::unique_ptr<SumGroups> make_sum_groups(comm::Mesh& mesh, bool is_sharded) {
  auto groups = std::make_unique<SumGroups>();
  if (is_sharded) {
    groups->shard = mesh.group({Axis::shard, Axis::context});
    groups->slice_replicas = mesh.group({Axis::data});
    groups->whole_replicas = mesh.group({Axis::data, Axis::tensor});
  } else {
    groups->slice_replicas = mesh.group({Axis::data, Axis::context});
    groups->whole_replicas = mesh.group({Axis::data, Axis::context, Axis::tensor});
  }
  return groups;
}

/// Wires of its own: keys and values go round while gradients are summed.
comm::Group context_group(comm::Mesh& mesh) {
  const comm::Group& group = mesh.group({Axis::context});
  return group.size() == 1 ? group : comm::duplicate(group, group.axis());
}

/// The ranks of the first and the last stage that hold the same rows of a tied parameter; every other rank is
/// alone.
comm::Group tied_group(const comm::Mesh& mesh, bool is_sharded) {
  const int stage = mesh.coordinate(Axis::pipeline);
  int color = mesh.coordinate(Axis::tensor), num_colors = mesh.size(Axis::tensor);
  if (is_sharded)
    for (const Axis axis : {Axis::context, Axis::shard}) {
      color += mesh.coordinate(axis) * num_colors;
      num_colors *= mesh.size(axis);
    }
  const bool is_end = stage == 0 || stage == mesh.size(Axis::pipeline) - 1;
  return comm::split(mesh.world(), is_end ? color : num_colors + mesh.world().rank(), "tied weights");
}

}  // namespace

Layout::Layout(const Plan& plan, const comm::Group& world)
    : plan_(resolve(plan, world.size())),
      mesh_(world, mesh_shape(plan_)),
      sum_groups_(make_sum_groups(mesh_, plan_.zero_stage > 0)),
      tensor_axis_(make_tensor_axis(mesh_.group({Axis::tensor}))),
      context_axis_(make_context_axis(context_group(mesh_))),
      pipeline_group_(mesh_.group({Axis::pipeline})) {
  if (plan_.zero_stage == 3 && sum_groups_->shard.size() > 1)
    shards_ = std::make_unique<ParameterShards>(sum_groups_->shard);
}

Layout::~Layout() = default;

// Ranks of one shard group have micro-batches that are far apart in number, replicas of the same rows
// neighbouring ones: sums over the shard group are then whole nodes of the tree (sum_tree.h), and those over
// the replicas the nodes above them.
Layout::DataShare Layout::data_share() const {
  const int copies = mesh_.size(Axis::data);
  return {mesh_.coordinate(Axis::shard) * copies + mesh_.coordinate(Axis::data),
          mesh_.size(Axis::shard) * copies,
          mesh_.coordinate(Axis::context) == 0 && mesh_.coordinate(Axis::tensor) == 0 &&
              mesh_.coordinate(Axis::pipeline) == 0};
}

void Layout::share_layers(const Stack& stack) {
  if (plan_.pipeline == 1) return;
  layers_ = layers_of_rank(plan_, stack, pipeline_group_.rank());
  width_ = stack.width;
  if (stack.tied.empty()) return;
  const comm::Group tied = tied_group(mesh_, plan_.zero_stage > 0);
  for (const std::string& name : stack.tied) sum_groups_->tied_replicas[name] = tied;
}

bool Layout::has_layer(int64_t layer) const {
  return layers_.empty() ||
         std::ranges::any_of(layers_, [&](const LayerRange& range) { return range.contains(layer); });
}

void Layout::keep(Parameter& parameter) {
  if (shards_) shards_->keep(parameter);
}

}  // namespace duoka::parallel
