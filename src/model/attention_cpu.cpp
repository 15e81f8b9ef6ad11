// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cmath>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "model/attention_kernel.h"
#include "model/attention_piece.h"
#include "model/attention_tile.h"
#include "model/row_loop.h"

namespace duoka::model {

namespace {

/// Work of one thread: queries of a piece and one key head, and which of the parts of the keys' gradient it
/// adds to: tasks of the same keys have different ones.
struct Task {
  AttentionPiece piece;
  int64_t kv_head, q_begin, q_end, part;

  double num_pairs() const {
    const auto pairs_up_to = [&](int64_t query) {
      const auto count = static_cast<double>(query);
      return piece.is_causal ? count * count / 2 : count * static_cast<double>(piece.k_length);
    };
    return pairs_up_to(q_end) - pairs_up_to(q_begin);
  }
};

/// Parts of about equal work that a piece's queries are cut into, so that few long pieces keep all threads
/// busy; but of a thousand keys each, as every part has a copy of the keys' gradient.
int64_t num_parts(const std::vector<AttentionPiece>& pieces, int64_t num_kv_heads) {
  constexpr int64_t fewest_queries = 1024, most_parts = 4;
  int64_t longest = 0;
  for (const AttentionPiece& piece : pieces) longest = std::max(longest, piece.q_length);
  const int64_t tasks = static_cast<int64_t>(pieces.size()) * num_kv_heads,
                wanted = at::get_num_threads() == 1 ? 1 : (2 * at::get_num_threads() + tasks - 1) / tasks;
  return std::clamp<int64_t>(wanted, 1, std::clamp<int64_t>(longest / fewest_queries, 1, most_parts));
}

/// The longest first, so that threads end together.
std::vector<Task> tasks_of(const std::vector<AttentionPiece>& pieces, int64_t num_kv_heads, int64_t group,
                           int64_t num_parts) {
  std::vector<Task> tasks;
  const int64_t tile = tokens_per_tile(group);
  for (const AttentionPiece& piece : pieces) {
    int64_t begin = 0;
    for (int64_t part = 0; part < num_parts && begin < piece.q_length; ++part) {
      const double share = static_cast<double>(part + 1) / static_cast<double>(num_parts),
                   end = (piece.is_causal ? std::sqrt(share) : share) * static_cast<double>(piece.q_length);
      const int64_t q_end =
          part + 1 == num_parts
              ? piece.q_length
              : std::min(piece.q_length, (static_cast<int64_t>(end) + tile - 1) / tile * tile);
      if (q_end <= begin) continue;
      for (int64_t head = 0; head < num_kv_heads; ++head) tasks.push_back({piece, head, begin, q_end, part});
      begin = q_end;
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const Task& a, const Task& b) { return a.num_pairs() > b.num_pairs(); });
  return tasks;
}

/// Each thread takes the next task when it has done one; what a task computes does not depend on which.
template <class Body>
void run_tasks(const std::vector<Task>& tasks, const Body& body) {
  std::atomic<size_t> next = 0;
  const auto num_threads = std::min<int64_t>(at::get_num_threads(), static_cast<int64_t>(tasks.size()));
  at::parallel_for(0, num_threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread)
      for (size_t task = next++; task < tasks.size(); task = next++) body(tasks[task]);
  });
}

/// Tokens [begin, begin + count) of one key head of x [N, Hkv, G, d].
template <class T>
rows::HeadRows<T> head_rows(const at::Tensor& x, int64_t begin, int64_t count, int64_t kv_head) {
  T* data = x.data_ptr<std::remove_const_t<T>>() + begin * x.stride(0) + kv_head * x.stride(1);
  return {data, x.stride(0), x.stride(2), count, x.size(2), x.size(3)};
}
template <class T>
rows::HeadRows<T> query_rows(const at::Tensor& x, const Task& task) {
  return head_rows<T>(x, task.piece.q_begin, task.piece.q_length, task.kv_head);
}
/// The same of x [N, Hkv, d].
template <class T>
rows::HeadRows<T> key_rows(const at::Tensor& x, const Task& task) {
  return head_rows<T>(x.unsqueeze(2), task.piece.k_begin, task.piece.k_length, task.kv_head);
}

template <class T>
AttentionTask<T> task_on(const Task& task, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         int64_t window) {
  return {query_rows<const T>(q, task),
          key_rows<const T>(k, task),
          key_rows<const T>(v, task),
          task.q_begin,
          task.q_end,
          {task.piece.is_causal, window}};
}

/// q [Nq, Hkv, G, d], k and v [Nk, Hkv, d], of pieces that have every query and every key once.
PieceAttended attend_pieces(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<AttentionPiece>& pieces, int64_t window) {
  const auto wide = q.options().dtype(accumulate_dtype(q.scalar_type()));
  PieceAttended result{at::empty(q.sizes(), q.options()), at::empty(q.sizes().slice(0, 3), wide)};
  const at::Tensor log_sum_exp = result.log_sum_exp.unsqueeze(-1);
  const auto tasks = tasks_of(pieces, q.size(1), q.size(2), num_parts(pieces, q.size(1)));
  with_type_of(q, [&]<class T>() {
    run_tasks(tasks, [&](const Task& task) {
      attend_task<T>(task_on<T>(task, q, k, v, window), query_rows<T>(result.out, task),
                     query_rows<Accumulate<T>>(log_sum_exp, task));
    });
  });
  return result;
}

AttentionGradients attend_pieces_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v, const PieceAttended& whole,
                                          const std::vector<AttentionPiece>& pieces, int64_t window) {
  const int64_t parts = num_parts(pieces, q.size(1));
  const auto wide = q.options().dtype(accumulate_dtype(q.scalar_type()));
  const at::Tensor dq = at::empty(q.sizes(), q.options()),
                   dk = at::zeros({parts, k.size(0), k.size(1), k.size(2)}, wide), dv = at::zeros_like(dk),
                   log_sum_exp = whole.log_sum_exp.unsqueeze(-1);
  const auto tasks = tasks_of(pieces, q.size(1), q.size(2), parts);
  with_type_of(q, [&]<class T>() {
    using A = Accumulate<T>;
    run_tasks(tasks, [&](const Task& task) {
      attend_task_backward<T>(task_on<T>(task, q, k, v, window), query_rows<const T>(dout, task),
                              query_rows<const T>(whole.out, task), query_rows<const A>(log_sum_exp, task),
                              query_rows<T>(dq, task), key_rows<A>(dk[task.part], task),
                              key_rows<A>(dv[task.part], task));
    });
  });
  const auto sum_of_parts = [&](const at::Tensor& d) {
    return (parts == 1 ? d.squeeze(0) : d.sum(0)).to(k.scalar_type());
  };
  return {dq, sum_of_parts(dk), sum_of_parts(dv)};
}

std::vector<AttentionPiece> pieces_of(const Stream& stream) {
  std::vector<AttentionPiece> pieces;
  for (size_t s = 0; s + 1 < stream.segment_offsets.size(); ++s) {
    const int64_t begin = stream.segment_offsets[s], length = stream.segment_offsets[s + 1] - begin;
    if (length > 0) pieces.push_back({begin, length, begin, length, true});
  }
  return pieces;
}

}  // namespace

Attended attend_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Stream& stream,
                    int64_t window) {
  const auto seen = attend_pieces(grouped(q, k.size(1)), k, v, pieces_of(stream), window);
  return {seen.out.flatten(1, 2), {seen.log_sum_exp.flatten(1)}};
}

AttentionGradients attend_cpu_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v, const Attended& attended, const Stream& stream,
                                       int64_t window) {
  const int64_t num_kv_heads = k.size(1);
  AttentionGradients d = attend_pieces_backward(
      grouped(dout, num_kv_heads), grouped(q, num_kv_heads), k, v,
      {grouped(attended.out, num_kv_heads), grouped(attended.context[0], num_kv_heads)}, pieces_of(stream),
      window);
  d.dq = d.dq.flatten(1, 2);
  return d;
}

PieceAttended attend_piece_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               bool is_causal) {
  return attend_pieces(q, k, v, {{0, q.size(0), 0, k.size(0), is_causal}}, 0);
}

AttentionGradients attend_piece_cpu_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                             const at::Tensor& v, const PieceAttended& whole,
                                             bool is_causal) {
  return attend_pieces_backward(dout, q, k, v, whole, {{0, q.size(0), 0, k.size(0), is_causal}}, 0);
}

}  // namespace duoka::model
