// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "duoka/comm/collectives.h"
#include "duoka/core/parameter.h"
#include "parallel/row_layout.h"

namespace duoka::parallel {

/// Makes parameters whole again after each rank of a group has changed its own rows (ZeRO-1 and 2).
class RowPublisher final {
 public:
  /// A bucket is sent when it has so many.
  static constexpr int64_t bucket_bytes = int64_t{16} << 20;

  /// parameters: the trainable ones, the same on every rank. They outlive this.
  RowPublisher(const std::vector<Parameter*>& parameters, comm::Group group);

  /// Sends this rank's rows of each Parameter::value to the others and takes theirs. Collective; sends
  /// (n-1)/n of the values' bytes and holds a bucket of them twice.
  void publish() const;

 private:
  struct Bucket {
    std::vector<at::Tensor> values;
    RowLayout layout;
  };
  comm::Group group_;
  std::vector<Bucket> buckets_;
};

}  // namespace duoka::parallel
