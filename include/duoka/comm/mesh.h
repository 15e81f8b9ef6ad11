// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <initializer_list>
#include <map>
#include <string>

#include "duoka/comm/group.h"

namespace duoka::comm {

/// The directions in which a job's ranks are spread, outermost first: neighbours on the tensor axis have
/// neighbouring ranks, so that the axis that talks most stays inside one machine.
enum class Axis { pipeline, data, shard, context, tensor };
inline constexpr int num_axes = 5;
/// "pipeline".
const char* axis_name(Axis axis);

/// Ranks on each axis.
struct MeshShape {
  int pipeline = 1;
  int data = 1;     ///< Copies of the whole state.
  int shard = 1;    ///< Ranks that share one copy (ZeRO).
  int context = 1;  ///< Ranks that share the tokens of one stream.
  int tensor = 1;   ///< Ranks that share each matrix.

  int size(Axis axis) const;
  int num_ranks() const { return pipeline * data * shard * context * tensor; }
};

/// A job's ranks as a grid, with a group for every set of axes that is asked for.
class Mesh final {
 public:
  /// Throws ConfigError when shape.num_ranks() is not the size of `world`.
  Mesh(Group world, const MeshShape& shape);

  const Group& world() const { return world_; }
  const MeshShape& shape() const { return shape_; }
  int size(Axis axis) const { return shape_.size(axis); }
  /// Where this rank stands on `axis`.
  int coordinate(Axis axis) const { return coordinates_[static_cast<size_t>(axis)]; }

  /// The ranks whose coordinates equal this one's on all other axes, in rank order: "data", or
  /// "shard+context" for two. Collective over the world the first time that set of axes is asked for, with
  /// the wires that takes; every rank asks for the same sets in the same order. Solo where the axes have
  /// size 1.
  const Group& group(std::initializer_list<Axis> axes);

 private:
  Group world_;
  MeshShape shape_;
  std::array<int, num_axes> coordinates_{};
  std::map<unsigned, Group> groups_;  // by the set of axes, a bit each
};

}  // namespace duoka::comm
