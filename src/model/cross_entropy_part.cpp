// SPDX-License-Identifier: Apache-2.0
// Cross entropy with the columns of the logits spread over a tensor axis.
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>

#include "model/card.h"
#include "model/cross_entropy.h"
#include "model/row_loop.h"
#include "model/rows.h"

namespace duoka::model {

namespace {

/// A number a row [n]: row(pointer to its logits, number of the row). In the dtype of the arithmetic.
template <class Row>
at::Tensor each_row(const at::Tensor& logits, const Row& row) {
  const int64_t v = logits.size(1);
  at::Tensor out =
      at::empty({logits.size(0)}, logits.options().dtype(accumulate_dtype(logits.scalar_type())));
  with_type_of(logits, [&]<class T>() {
    const T* const from = logits.const_data_ptr<T>();
    auto* const to = out.mutable_data_ptr<Accumulate<T>>();
    for_rows(logits.size(0), v, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = row(from + i * v, i);
    });
  });
  return out;
}

at::Tensor wide(const at::Tensor& logits) { return logits.to(accumulate_dtype(logits.scalar_type())); }

at::Tensor largest(const at::Tensor& logits) {
  const int64_t v = logits.size(1);
  if (!logits.is_cpu()) return card::largest(logits);
  return each_row(logits,
                  [v]<class T>(const T* row, int64_t) { return rows::largest<T, Accumulate<T>>(row, v); });
}

/// Sum of exp(logit - top).
at::Tensor sum_exp(const at::Tensor& logits, const at::Tensor& top) {
  const int64_t v = logits.size(1);
  if (!logits.is_cpu()) return card::sum_exp(logits, top);
  return each_row(logits, [&]<class T>(const T* row, int64_t i) {
    return rows::sum_exp(row, v, top.const_data_ptr<Accumulate<T>>()[i]);
  });
}

/// logits = scale * exp((logits - top) - log_sum)
void softmax_(at::Tensor& logits, const at::Tensor& top, const at::Tensor& log_sum, double scale) {
  if (!logits.is_cpu()) return card::softmax_(logits, top, log_sum, scale);
  const int64_t v = logits.size(1);
  with_type_of(logits, [&]<class T>() {
    using A = Accumulate<T>;
    T* const to = logits.mutable_data_ptr<T>();
    const A* const tops = top.const_data_ptr<A>();
    const A* const log_sums = log_sum.const_data_ptr<A>();
    for_rows(logits.size(0), v, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        rows::softmax(to + i * v, v, tops[i], log_sums[i], static_cast<A>(scale));
    });
  });
}

/// What the ranks know of each row together, and where its target is.
struct Rows {
  at::Tensor top, log_sum, log_p;  // [n]; log_p: log of the target's probability
  at::Tensor column, is_own;       // [n]; this rank's column of the target, 0 where it is another's
};

Rows look_at(const at::Tensor& logits, const at::Tensor& targets, const LogitsPart& part) {
  if (targets.is_cpu()) check_targets(targets, part.num_columns);
  Rows rows;
  rows.column = targets - part.first_column;
  rows.is_own = rows.column.ge(0).logical_and_(rows.column.lt(logits.size(1)));
  rows.column.masked_fill_(rows.is_own.logical_not(), 0);
  rows.top = largest(logits);
  part.axis.max_(rows.top);
  at::Tensor sums = at::empty({2, targets.size(0)}, rows.top.options());
  sums[0] = sum_exp(logits, rows.top);
  // The target's logit is one rank's; the others add nothing.
  sums[1] = wide(logits.gather(1, rows.column.unsqueeze(1)).squeeze(1))
                .sub(rows.top)
                .masked_fill_(rows.is_own.logical_not(), 0);
  part.axis.sum_(sums);
  rows.log_sum = sums[0].log();
  rows.log_p = sums[1] - rows.log_sum;
  return rows;
}

at::Tensor loss_of(const Rows& rows) { return rows.log_p.sum(at::kDouble).neg_(); }

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const LogitsPart& part) {
  if (part.axis.is_solo()) return cross_entropy(logits, targets);
  return loss_of(look_at(logits, targets, part));
}

at::Tensor cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, double scale,
                                   const LogitsPart& part) {
  if (part.axis.is_solo()) return cross_entropy_backward_(logits, targets, scale);
  const Rows rows = look_at(logits, targets, part);
  softmax_(logits, rows.top, rows.log_sum, scale);
  const auto column = rows.column.unsqueeze(1);
  const auto at_target =
      (rows.log_p.expm1() * scale).to(logits.scalar_type());  // p - 1, also where p is almost 1
  logits.scatter_(1, column,
                  at::where(rows.is_own, at_target, logits.gather(1, column).squeeze(1)).unsqueeze(1));
  return loss_of(rows);
}

}  // namespace duoka::model
