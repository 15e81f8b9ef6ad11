// SPDX-License-Identifier: Apache-2.0
#include "model/cross_entropy.h"

#include <string>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "duoka/core/error.h"
#include "model/card.h"
#include "model/row_loop.h"
#include "model/rows.h"

namespace duoka::model {

void check_targets(const at::Tensor& targets, int64_t num_columns) {
  const auto [low, high] = targets.aminmax();
  if (low.item<int64_t>() >= 0 && high.item<int64_t>() < num_columns) return;
  throw StateError("targets from " + std::to_string(low.item<int64_t>()) + " to " +
                   std::to_string(high.item<int64_t>()) + " for " + std::to_string(num_columns) +
                   " logits; the tokenizer does not fit the model");
}

namespace {

/// Calls row(logits of row i, target i) -> loss for each row; the losses are summed in order of the rows.
template <class T, class Row>
at::Tensor sum_rows(T* logits, const at::Tensor& targets, int64_t num_columns, const Row& row) {
  const int64_t num_rows = targets.size(0);
  at::Tensor losses = at::empty({num_rows}, at::kDouble);
  double* const to = losses.mutable_data_ptr<double>();
  const int64_t* const target = targets.const_data_ptr<int64_t>();
  for_rows(num_rows, num_columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = row(logits + i * num_columns, target[i]);
  });
  return losses.sum();
}

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const int64_t v = logits.size(1);
  if (targets.size(0) == 0) return at::zeros({}, logits.options().dtype(at::kDouble));
  if (!logits.is_cpu()) return card::cross_entropy(logits, targets);
  check_targets(targets, v);
  at::Tensor sum;
  with_type_of(logits, [&]<class T>() {
    sum = sum_rows(logits.const_data_ptr<T>(), targets.contiguous(), v,
                   [v](const T* row, int64_t target) { return rows::cross_entropy(row, v, target); });
  });
  return sum;
}

at::Tensor cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, double scale) {
  const int64_t v = logits.size(1);
  if (targets.size(0) == 0) return at::zeros({}, logits.options().dtype(at::kDouble));
  if (!logits.is_cpu()) return card::cross_entropy_backward_(logits, targets, scale);
  check_targets(targets, v);
  at::Tensor sum;
  with_type_of(logits, [&]<class T>() {
    sum = sum_rows(logits.mutable_data_ptr<T>(), targets.contiguous(), v, [v, scale](T* row, int64_t target) {
      return rows::cross_entropy_backward(row, v, target, scale);
    });
  });
  return sum;
}

}  // namespace duoka::model
