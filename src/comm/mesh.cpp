// SPDX-License-Identifier: Apache-2.0
#include "duoka/comm/mesh.h"

#include <utility>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {
constexpr std::array all_axes = {Axis::pipeline, Axis::data, Axis::shard, Axis::context, Axis::tensor};
}

const char* axis_name(Axis axis) {
  switch (axis) {
    case Axis::pipeline:
      return "pipeline";
    case Axis::data:
      return "data";
    case Axis::shard:
      return "shard";
    case Axis::context:
      return "context";
    case Axis::tensor:
      return "tensor";
  }
  throw StateError("unknown axis");
}

int MeshShape::size(Axis axis) const {
  return std::array{pipeline, data, shard, context, tensor}[static_cast<size_t>(axis)];
}

Mesh::Mesh(Group world, const MeshShape& shape) : world_(std::move(world)), shape_(shape) {
  for (const Axis axis : all_axes)
    if (shape.size(axis) < 1)
      throw ConfigError(text(axis_name(axis), " = ", shape.size(axis), "; wanted 1 or more"));
  if (shape.num_ranks() != world_.size())
    throw ConfigError(
        text("a mesh of ", counted(shape.num_ranks(), "rank"), " for a job of ", world_.size()));
  int rest = world_.rank();
  for (int i = num_axes - 1; i >= 0; --i) {
    const int size = shape.size(all_axes[static_cast<size_t>(i)]);
    coordinates_[static_cast<size_t>(i)] = rest % size;
    rest /= size;
  }
}

const Group& Mesh::group(std::initializer_list<Axis> axes) {
  unsigned set = 0;
  for (const Axis axis : axes) set |= 1u << static_cast<unsigned>(axis);
  if (const auto found = groups_.find(set); found != groups_.end()) return found->second;
  int size = 1, color = 0;
  std::string name;
  for (const Axis axis : all_axes) {
    if ((set & (1u << static_cast<unsigned>(axis))) == 0) {
      color = color * shape_.size(axis) + coordinate(axis);
      continue;
    }
    size *= shape_.size(axis);
    if (shape_.size(axis) > 1) name += (name.empty() ? "" : "+") + std::string(axis_name(axis));
  }
  return groups_.emplace(set, size == 1 ? Group() : split(world_, color, name)).first->second;
}

}  // namespace duoka::comm
