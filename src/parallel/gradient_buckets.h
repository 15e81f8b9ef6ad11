// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/layer.h"

namespace duoka::parallel {

/// Gradients of a chain's trainable parameters in flat buffers, each reduced at once as soon as it is
/// complete.
///
/// Stages count the walk back: L (number of layers) is the objective, then layers L-1 … 0. A parameter is
/// complete after the lowest stage that uses it, so a tied weight is sent after its last use.
class GradientBuckets {
 public:
  /// Allocates the buffers, zero, and points Parameter::grad into them. A bucket holds whole stages, as many
  /// neighbouring ones as fit in `bucket_bytes`; one bucket has one dtype and device.
  GradientBuckets(const Chain& chain, int64_t bucket_bytes);

  void zero();
  /// The walk back has done `stage` for the last time: starts the sum over `group` of what is now complete.
  /// Collective; the order of buckets is the same on every rank.
  void start_complete(int64_t stage, const comm::Group& group);
  /// Waits for all started; no-op when none is.
  void wait();
  bool is_reducing() const { return num_started_ > 0; }

  /// Lowest stage with a trainable parameter: the walk back need not go below.
  int64_t lowest_stage() const;
  size_t num_buckets() const { return buckets_.size(); }

 private:
  struct Bucket {
    at::Tensor flat;
    int64_t stage = 0;  ///< The lowest one inside.
    comm::Pending pending;
  };
  struct Entry {
    Parameter* parameter;
    int64_t stage;
  };
  void add_bucket(const std::vector<Entry>& entries);

  std::vector<Bucket> buckets_;  // in the order they become complete
  size_t num_started_ = 0;
};

}  // namespace duoka::parallel
