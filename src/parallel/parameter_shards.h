// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/layer.h"
#include "parallel/row_layout.h"

namespace duoka::parallel {

/// Parameters that are fetched together: of one dtype and device, and used by the same stages, ascending.
struct SetToFetch {
  std::vector<int64_t> stages;
  std::vector<Parameter*> parameters;
};
/// All of a chain's, in chain order. Stages as in walk.h.
std::vector<SetToFetch> sets_to_fetch(const Chain& chain);

/// The rows each rank of a group keeps of every parameter (ZeRO-3), and the whole ones for as long as a stage
/// of the walk needs them.
///
/// Built up in two steps: keep() for each parameter as soon as it is there (so that a loader never holds more
/// than the rows and one tensor), then gather_for() when the chain stands.
class ParameterShards final {
 public:
  explicit ParameterShards(comm::Group group) : group_(std::move(group)) {}

  /// Copies this rank's rows and gives the memory of parameter.value back. A parameter may be kept once.
  void keep(Parameter& parameter);
  /// Puts the rows of the chain's parameters where they are sent from: parameters that the same stages use
  /// are fetched together. keep()s those that were not kept yet. Stages as in walk.h; `chain` outlives this.
  void gather_for(const Chain& chain);

  /// This rank's rows of a parameter, in its dtype: [rows, …]. What an optimizer changes here the next gather
  /// shows.
  at::Tensor rows_of(const Parameter& parameter) const;

  /// Makes the parameters of `stage` whole; waits if need be. A stage may be acquired more than once.
  void acquire(int64_t stage);
  /// Starts fetching those of `stage`, so that a later acquire() need not wait so long.
  void prefetch(int64_t stage);
  void release(int64_t stage);

  const comm::Group& group() const { return group_; }

 private:
  struct Unit {
    std::vector<Parameter*> parameters;
    std::vector<at::Tensor> values;
    RowLayout layout;
    at::Tensor own;       ///< [chunk]
    at::Tensor gathered;  ///< [n, chunk], while under way.
    comm::Pending pending;
    int num_users = 0;
  };
  void start(Unit& unit);
  void add_unit(std::vector<Parameter*> parameters);

  comm::Group group_;
  std::map<std::string, at::Tensor> kept_;  // by name, until gather_for()
  std::vector<Unit> units_;
  std::vector<std::vector<size_t>> units_of_stage_;
};

}  // namespace duoka::parallel
