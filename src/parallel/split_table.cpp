// SPDX-License-Identifier: Apache-2.0
#include "parallel/split_table.h"

#include <utility>

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "duoka/core/host_allocator.h"

namespace duoka::parallel {

namespace {

struct Rows {
  at::Tensor ids, values;
};

Rows rows_of(const at::Tensor& gradient) {
  if (gradient.is_sparse()) {
    const at::Tensor summed = gradient.coalesce();
    return {summed.indices().select(0, 0), summed.values()};
  }
  const at::Tensor ids = gradient.ne(0).any(1).nonzero().squeeze(1);
  return {ids, gradient.index_select(0, ids)};
}

at::Tensor padded(const at::Tensor& x, int64_t size) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = size;
  at::Tensor result = at::zeros(shape, x.options());
  result.narrow(0, 0, x.size(0)).copy_(x);
  return result;
}

/// [n, m, …] of each rank's [m, …].
at::Tensor gathered(const at::Tensor& own, const comm::Group& group) {
  std::vector<int64_t> shape = own.sizes().vec();
  shape.insert(shape.begin(), group.size());
  at::Tensor all = at::empty(shape, own.options());
  comm::all_gather_into(all, own, group);
  return all;
}

}  // namespace

SplitTable::SplitTable(Parameter& parameter, int64_t head_stage, comm::Group group)
    : parameter_(&parameter), head_stage_(head_stage), group_(std::move(group)) {}

bool SplitTable::is_worth_it(const Parameter& table, int64_t num_tokens, int num_ranks) {
  constexpr int64_t least_rows_per_token = 4;
  return least_rows_per_token * num_tokens * num_ranks <= table.value.size(0);
}

void SplitTable::begin(int64_t num_tokens) {
  is_at_head_ = is_split_ = false;
  if (num_tokens < 0) return;
  most_tokens_ = at::tensor({num_tokens}, at::kLong);
  agreement_ = comm::start_all_reduce(most_tokens_, comm::Op::max, group_);
}

bool SplitTable::comes_to_head(int64_t stage) {
  if (is_at_head_ || stage > head_stage_ || !most_tokens_.defined()) return false;
  is_at_head_ = true;
  agreement_.wait();
  const int64_t num_tokens = std::exchange(most_tokens_, {}).item<int64_t>();
  is_split_ = is_worth_it(*parameter_, num_tokens, group_.size());
  return is_split_;
}

void SplitTable::open_rows() {
  const at::Tensor& value = parameter_->value;
  const auto options = value.options().dtype(parameter_->gradient_dtype());
  const at::Tensor no_ids = at::empty({1, 0}, value.options().dtype(at::kLong));
  parameter_->grad =
      at::_sparse_coo_tensor_unsafe(no_ids, at::empty({0, value.size(1)}, options), value.sizes());
}

void SplitTable::add_rows(const std::function<void(const at::Tensor&, const at::Tensor&)>& add) {
  if (!std::exchange(is_split_, false)) return;
  const MemoryScope scope(MemoryClass::gradients);
  const Rows own = rows_of(std::exchange(parameter_->grad, {}));
  at::Tensor most = at::tensor({own.ids.size(0)}, at::kLong);
  comm::all_reduce(most, comm::Op::max, group_);
  const auto num_rows = most.item<int64_t>();
  const at::Tensor ids = gathered(padded(own.ids, num_rows), group_);
  const at::Tensor rows = gathered(padded(own.values, num_rows), group_);
  for (int rank = 0; rank < group_.size(); ++rank) add(ids[rank], rows[rank]);
}

}  // namespace duoka::parallel
