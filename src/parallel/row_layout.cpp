// SPDX-License-Identifier: Apache-2.0
#include "parallel/row_layout.h"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace duoka::parallel {

RowLayout::RowLayout(std::span<const at::Tensor> tensors, int num_ranks) : num_ranks_(num_ranks) {
  for (const at::Tensor& tensor : tensors) {
    Entry entry;
    entry.shape = tensor.dim() == 0 ? std::vector<int64_t>{1} : tensor.sizes().vec();
    const int64_t rows = entry.shape[0];
    entry.row_numel = rows == 0 ? 0 : tensor.numel() / rows;
    entry.per_rank = (rows + num_ranks - 1) / num_ranks;
    entry.begin = chunk_;
    chunk_ += entry.per_rank * entry.row_numel;
    is_exact_ = is_exact_ && entry.per_rank * num_ranks == rows;
    entries_.push_back(std::move(entry));
  }
}

int64_t RowLayout::first_row(size_t index, int rank) const {
  return std::min(entries_[index].shape[0], rank * entries_[index].per_rank);
}

int64_t RowLayout::num_rows(size_t index, int rank) const {
  return first_row(index, rank + 1) - first_row(index, rank);
}

at::Tensor RowLayout::place(const at::Tensor& buffer, size_t index, int rank) const {
  return rows_in_chunk(buffer.select(0, rank), index, rank);
}

at::Tensor RowLayout::rows(const at::Tensor& tensor, size_t index, int rank) const {
  const at::Tensor flat = tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor;
  return flat.narrow(0, first_row(index, rank), num_rows(index, rank));
}

at::Tensor RowLayout::rows_in_chunk(const at::Tensor& chunk, size_t index, int rank) const {
  const Entry& entry = entries_[index];
  std::vector<int64_t> shape = entry.shape;
  shape[0] = num_rows(index, rank);
  return chunk.narrow(0, entry.begin, shape[0] * entry.row_numel).view(shape);
}

at::Tensor RowLayout::pack(std::span<const at::Tensor> tensors, const at::TensorOptions& options) const {
  // The room of rows that a rank has not must not hold what was in memory.
  at::Tensor buffer =
      is_exact_ ? at::empty({num_ranks_, chunk_}, options) : at::zeros({num_ranks_, chunk_}, options);
  for (size_t i = 0; i < tensors.size(); ++i)
    for (int rank = 0; rank < num_ranks_; ++rank) {
      if (tensors[i].defined())
        place(buffer, i, rank).copy_(rows(tensors[i], i, rank));
      else
        place(buffer, i, rank).zero_();
    }
  return buffer;
}

void RowLayout::unpack(const at::Tensor& buffer, std::span<const at::Tensor> tensors, int except) const {
  const at::Tensor rows_of_ranks = buffer.view({num_ranks_, chunk_});
  for (size_t i = 0; i < tensors.size(); ++i)
    for (int rank = 0; rank < num_ranks_; ++rank)
      if (rank != except) rows(tensors[i], i, rank).copy_(place(rows_of_ranks, i, rank));
}

}  // namespace duoka::parallel
