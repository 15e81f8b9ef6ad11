// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace duoka::parallel {

/// How the rows (dim 0) of several tensors are dealt out to n ranks, and where they lie in one buffer [n,
/// chunk] that a collective takes: rank r has rows [r * k, (r + 1) * k) of each tensor, k = ceil(rows / n),
/// cut off at the end (the last ranks may have fewer, or none); they lie in row r of the buffer, one tensor
/// behind the other, each in the room of k rows. A tensor without dims is one row.
class RowLayout final {
 public:
  /// tensors: all of one dtype and device; only their shapes are looked at.
  RowLayout(std::span<const at::Tensor> tensors, int num_ranks);

  /// Elements of one rank's row of the buffer.
  int64_t chunk() const { return chunk_; }
  int num_ranks() const { return num_ranks_; }
  /// First row and number of rows of tensor `index` that `rank` has.
  int64_t first_row(size_t index, int rank) const;
  int64_t num_rows(size_t index, int rank) const;

  /// The tensors in a new buffer [n, chunk]; one that is undefined counts as zeros.
  at::Tensor pack(std::span<const at::Tensor> tensors, const at::TensorOptions& options) const;
  /// The reverse: fills the tensors from a buffer, but for the rows of `except`, if that is a rank.
  void unpack(const at::Tensor& buffer, std::span<const at::Tensor> tensors, int except = -1) const;
  /// Rows of `rank` of a tensor, a view: [rows, …].
  at::Tensor rows(const at::Tensor& tensor, size_t index, int rank) const;
  /// The rows that `rank` has of tensor `index` inside its row [chunk] of the buffer, a view: [rows, …].
  at::Tensor rows_in_chunk(const at::Tensor& chunk, size_t index, int rank) const;

 private:
  struct Entry {
    std::vector<int64_t> shape;  // with at least one dim
    int64_t row_numel = 1;
    int64_t per_rank = 0;
    int64_t begin = 0;  // in the chunk
  };
  at::Tensor place(const at::Tensor& buffer, size_t index, int rank) const;

  std::vector<Entry> entries_;
  int num_ranks_;
  int64_t chunk_ = 0;
  bool is_exact_ = true;  // no rank has fewer rows than the others
};

}  // namespace duoka::parallel
