// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/stream.h"
#include "duoka/model/parameter_source.h"

namespace duoka::model {

/// Indices [begin, begin + count) of something that ranks share.
struct Part {
  int64_t begin = 0;
  int64_t count = 0;
};
/// Rank `rank`'s contiguous part of [0, total) among `size` ranks: ceil(total / size) each, the last ones
/// fewer, down to none.
Part part_of(int64_t total, int rank, int size);

/// The ranks that hold a part of each matrix of one model (tensor parallelism), as layers see them.
///
/// Between the layers each rank has the residual stream of its own part of the tokens (sequence
/// parallelism). Attention and Mlp gather the tokens at their top, compute with their part of the matrices,
/// and scatter the sum over the ranks at their end; backward mirrors it. Every layer of every rank is given
/// the whole stream.
///
/// All functions that move numbers are collective: each rank calls them, in the same order. Results are equal
/// bit for bit on all ranks. With one rank they return their argument itself.
/// Source: Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3; Korthikanti et al., "Reducing
/// activation recomputation in large transformer models", arXiv:2205.05198, section 4.2.2.
class TensorAxis {
 public:
  virtual ~TensorAxis() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool is_solo() const { return size() == 1; }

  /// Rows of all ranks, one rank's after the other's. counts[r]: rows that rank r gives, the same list on
  /// all; x [counts[rank], D] -> [sum of counts, D].
  virtual at::Tensor gather_rows(const at::Tensor& x, const std::vector<int64_t>& counts) const = 0;
  /// The reverse: x [sum of counts, D] -> the sum over the ranks of the rows that are this rank's.
  virtual at::Tensor scatter_sum_rows(const at::Tensor& x, const std::vector<int64_t>& counts) const = 0;
  /// Sum and maximum over the ranks, in place.
  virtual void sum_(at::Tensor& x) const = 0;
  virtual void max_(at::Tensor& x) const = 0;

  Part part(int64_t total) const { return part_of(total, rank(), size()); }
  /// The part of a dim as a layer asks its source for it; nothing where one rank has all.
  std::optional<Slice> slice(int64_t dim, int64_t total) const;
  /// Number in each rank's part.
  std::vector<int64_t> parts(int64_t total) const;
  /// This rank's tokens [n, D] -> the stream's [N, D], and back.
  at::Tensor gather_tokens(const at::Tensor& x, const Stream& stream) const;
  at::Tensor scatter_sum_tokens(const at::Tensor& x, const Stream& stream) const;
};

/// One rank, which has all.
std::shared_ptr<const TensorAxis> solo_tensor_axis();

/// Throws StateError for more than one rank: `what` needs all of the matrices.
void require_solo(const TensorAxis& axis, const char* what);

}  // namespace duoka::model
