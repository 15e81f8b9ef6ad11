// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

namespace duoka::model {

struct ModelConfig;

/// The ranks that share the tokens of each row (context parallelism), as attention sees them: a ring. Each
/// rank is given its part of the stream, see cut_stream(); layers but attention need nothing of the others.
class ContextAxis {
 public:
  virtual ~ContextAxis() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool is_solo() const { return size() == 1; }

  /// Tensors on their way. Going unfinished is allowed where an error ends the work.
  class Exchange {
   public:
    virtual ~Exchange() = default;
    /// Returns when what was received is there and what was sent may be changed.
    virtual void finish() = 0;
  };
  /// Sends `to_next` to rank + 1 and receives `from_previous` from rank - 1 (round the ring), which has to
  /// fit what that rank sends. Returns at once; several may be on their way. Every rank starts the same
  /// exchanges in the same order. Both contiguous; either may be empty.
  virtual std::unique_ptr<Exchange> start_exchange(const at::Tensor& to_next,
                                                   at::Tensor from_previous) const = 0;
};

/// One rank, which has whole rows.
std::shared_ptr<const ContextAxis> solo_context_axis();

/// Throws StateError for more than one rank: `what` needs whole rows.
void require_solo(const ContextAxis& axis, const char* what);

/// Throws ConfigError when `size` ranks of context parallelism cannot share rows of up to `longest_row`
/// tokens of this model: where a sliding window is shorter than that.
void check_context_parallel(const ModelConfig& config, int64_t size, int64_t longest_row);

}  // namespace duoka::model
