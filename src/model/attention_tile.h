// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/attention_rows.h"

/// A key head and the queries of its group, tile by tile: what one thread computes of attention on the CPU.
/// Neither scores nor weights are ever whole. Source: Dao, "FlashAttention-2", arXiv:2307.08691.
namespace duoka::model {

/// Which keys a query sees, both numbered within their pieces: all, or (causal) those up to itself, or (with
/// a window) the last `window` of these.
struct Sight {
  bool is_causal;
  int64_t window;

  /// First query that sees the key, and the first after it that does not.
  int64_t first_query(int64_t key) const { return is_causal ? key : 0; }
  int64_t end_query(int64_t key, int64_t num_queries) const {
    return window > 0 ? std::min(num_queries, key + window) : num_queries;
  }
  int64_t first_key(int64_t query) const { return window > 0 ? std::max<int64_t>(0, query - window + 1) : 0; }
  int64_t end_key(int64_t query, int64_t num_keys) const {
    return is_causal ? std::min(num_keys, query + 1) : num_keys;
  }
};

/// Queries [q_begin, q_end) of a piece, of the heads that share a key head; k and v are of group 1.
template <class T>
struct AttentionTask {
  rows::HeadRows<const T> q, k, v;  ///< Of the whole piece.
  int64_t q_begin, q_end;
  Sight sight;

  int64_t num_keys() const { return sight.end_key(q_end - 1, k.num_tokens); }
};

/// Number of queries that are computed together.
int64_t tokens_per_tile(int64_t group);

/// Computes the task's rows of out and log_sum_exp (vectors of one number).
template <class T>
void attend_task(const AttentionTask<T>& task, const rows::HeadRows<T>& out,
                 const rows::HeadRows<Accumulate<T>>& log_sum_exp);

/// Computes the task's rows of dq, and those of dk and dv from the first key that its queries see to the
/// last. out, log_sum_exp: of all the queries see, not only in this piece.
template <class T>
void attend_task_backward(const AttentionTask<T>& task, const rows::HeadRows<const T>& dout,
                          const rows::HeadRows<const T>& out,
                          const rows::HeadRows<const Accumulate<T>>& log_sum_exp, const rows::HeadRows<T>& dq,
                          const rows::HeadRows<Accumulate<T>>& dk, const rows::HeadRows<Accumulate<T>>& dv);

}  // namespace duoka::model
