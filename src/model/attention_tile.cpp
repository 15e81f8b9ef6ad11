// SPDX-License-Identifier: Apache-2.0
#include "model/attention_tile.h"

#include <cmath>
#include <limits>
#include <memory>
#include <new>

#include <ATen/native/CPUBlas.h>
#include <c10/util/Half.h>

namespace duoka::model {

namespace {

using c10::BFloat16;
using rows::HeadRows;
using rows::paired;

constexpr int64_t keys_per_tile = 64, rows_multiple = 16;

int64_t round_up(int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

/// c [m, n] = a [m, k] b [k, n], or += . b is packed, see rows::paired; rows of c lie n apart.
void multiply(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
              float* c, bool add) {
  at::native::cpublas::brgemm(m, n, k, lda, ldb, n, add, a, b, c, false);
}
void multiply(int64_t m, int64_t n, int64_t k, const BFloat16* a, int64_t lda, const BFloat16* b, int64_t ldb,
              float* c, bool add) {
  at::native::cpublas::brgemm(m, n, k, lda, ldb, n, add, a, b, c, true);
}
void multiply(int64_t m, int64_t n, int64_t k, const double* a, int64_t lda, const double* b, int64_t ldb,
              double* c, bool add) {  // what gradients are proved with; libtorch shows no product for it
  for (int64_t row = 0; row < m; ++row, a += lda, c += n) {
    if (!add) std::fill_n(c, n, 0.0);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t column = 0; column < n; ++column) c[column] += a[i] * b[i * ldb + column];
  }
}

/// Whether the processor multiplies bf16 itself; else bf16 is packed as f32.
bool multiplies_bf16() {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool does = __builtin_cpu_supports("avx512bf16") != 0;
  return does;
#else
  return false;
#endif
}

/// Aligned memory; its numbers are not set.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : data_(static_cast<T*>(::operator new(sizeof(T) * static_cast<size_t>(count), alignment))) {}
  operator T*() const { return data_.get(); }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(T* data) const { ::operator delete(data, alignment); }
  };
  std::unique_ptr<T, Free> data_;
};

template <class T>
HeadRows<T> tokens(HeadRows<T> x, int64_t begin, int64_t count) {
  x.data += begin * x.token_stride;
  x.num_tokens = count;
  return x;
}

/// Keys [begin, end) that the queries of a task or of a tile see, the first moved down to that of a tile.
struct Keys {
  int64_t begin, end;

  template <class T>
  Keys(const AttentionTask<T>& task, int64_t first_query, int64_t last_query)
      : begin(task.sight.first_key(first_query) / keys_per_tile * keys_per_tile),
        end(task.sight.end_key(last_query, task.k.num_tokens)) {}
  int64_t num_rows() const { return round_up(end - begin, rows_multiple); }
};

/// Queries that are computed together. A column is one of them for one head; some only fill the tile.
struct Tile {
  int64_t begin, count, num_columns;
  Keys keys;

  template <class T>
  Tile(const AttentionTask<T>& task, int64_t query)
      : begin(query),
        count(std::min(tokens_per_tile(task.q.group), task.q_end - query)),
        num_columns(round_up(count, rows_multiple) * task.q.group),
        keys(task, query, query + count - 1) {}
};

template <class T>
int64_t max_columns(const AttentionTask<T>& task) {
  return tokens_per_tile(task.q.group) * task.q.group;
}

/// Scores of keys [key, key + num_rows) that a query does not see, and those of what fills the tile, become
/// -inf.
template <class A, class T>
void hide_unseen(A* scores, const AttentionTask<T>& task, const Tile& tile, int64_t key, int64_t num_rows) {
  constexpr A none = -std::numeric_limits<A>::infinity();
  const int64_t end = tile.begin + tile.count, group = task.q.group;
  for (int64_t row = key; row < key + num_rows; ++row, scores += tile.num_columns) {
    const bool is_key = row < task.k.num_tokens;
    const int64_t first = is_key ? std::clamp(task.sight.first_query(row), tile.begin, end) : end;
    const int64_t last = is_key ? std::clamp(task.sight.end_query(row, end), first, end) : end;
    std::fill(scores, scores + (first - tile.begin) * group, none);
    std::fill(scores + (last - tile.begin) * group, scores + tile.num_columns, none);
  }
}

/// Calls body(first key, number of rows, row within `all`) on each tile of keys.
template <class Body>
void for_key_tiles(const Keys& keys, const Keys& all, const Body& body) {
  for (int64_t key = keys.begin; key < keys.end; key += keys_per_tile)
    body(key, std::min(keys_per_tile, round_up(keys.end - key, rows_multiple)), key - all.begin);
}

/// Calls body(tile) on the task's queries.
template <class T, class Body>
void for_query_tiles(const AttentionTask<T>& task, const Body& body) {
  for (int64_t query = task.q_begin; query < task.q_end;) {
    const Tile tile(task, query);
    body(tile);
    query += tile.count;
  }
}

template <class T, class P>
class Forward {
  using A = Accumulate<T>;

 public:
  explicit Forward(const AttentionTask<T>& task) : task_(task) {
    const int64_t count = keys_.end - keys_.begin;
    rows::pack(tokens(task.k, keys_.begin, count), num_rows_, 1, static_cast<P*>(k_));
    rows::pack_turned(tokens(task.v, keys_.begin, count), num_rows_, 1, num_rows_,
                      static_cast<P*>(v_turned_));
  }

  void run(const HeadRows<T>& out, const HeadRows<A>& log_sum_exp) {
    for_query_tiles(task_, [&](const Tile& tile) {
      see(tile);
      finish(tile, tokens(out, tile.begin, tile.count), tokens(log_sum_exp, tile.begin, tile.count));
    });
  }

 private:
  void see(const Tile& tile) {
    const int64_t columns = tile.num_columns;
    rows::pack_turned(tokens(task_.q, tile.begin, tile.count), columns, paired<P>, columns,
                      static_cast<P*>(q_turned_));
    std::fill_n(static_cast<A*>(top_), columns, lowest);
    std::fill_n(static_cast<A*>(sum_), columns, A{0});
    for_key_tiles(tile.keys, keys_, [&](int64_t key, int64_t num_rows, int64_t row) {
      multiply(num_rows, columns, d_, k_ + row * d_, d_, q_turned_, columns, scores_, false);
      hide_unseen<A>(scores_, task_, tile, key, num_rows);
      rows::weigh<A, P>(scores_, num_rows, columns, scale_, top_, sum_, shrink_, weights_);
      const bool is_first = key == tile.keys.begin;
      if (!is_first) rows::scale_columns<A>(out_turned_, d_, columns, shrink_);
      multiply(d_, columns, num_rows, v_turned_ + row, num_rows_, weights_, columns, out_turned_, !is_first);
    });
  }

  void finish(const Tile& tile, const HeadRows<T>& out, const HeadRows<A>& log_sum_exp) {
    int64_t column = 0;
    for (int64_t token = 0; token < tile.count; ++token)
      for (int64_t head = 0; head < task_.q.group; ++head, ++column)
        *log_sum_exp.row(token, head) = top_[column] + std::log(sum_[column]);
    for (column = 0; column < tile.num_columns; ++column) sum_[column] = A{1} / sum_[column];
    rows::unpack_turned<T, A>(out_turned_, tile.num_columns, sum_, out);
  }

  // Below every score; a difference to it is finite.
  static constexpr A lowest = std::numeric_limits<float>::lowest() / 4;
  const AttentionTask<T>& task_;
  const Keys keys_{task_, task_.q_begin, task_.q_end - 1};
  const int64_t num_rows_ = keys_.num_rows(), d_ = task_.q.head_dim, columns_ = max_columns(task_);
  const A scale_ = A{1} / std::sqrt(static_cast<A>(d_));
  Scratch<P> k_{num_rows_ * d_}, v_turned_{num_rows_ * d_}, q_turned_{columns_ * d_};
  Scratch<A> scores_{columns_ * keys_per_tile};
  Scratch<P> weights_{columns_ * keys_per_tile};
  Scratch<A> out_turned_{columns_ * d_}, top_{columns_}, sum_{columns_}, shrink_{columns_};
};

template <class T, class P>
class Backward {
  using A = Accumulate<T>;

 public:
  explicit Backward(const AttentionTask<T>& task) : task_(task) {
    const int64_t count = keys_.end - keys_.begin;
    const auto k = tokens(task.k, keys_.begin, count), v = tokens(task.v, keys_.begin, count);
    rows::pack(k, num_rows_, 1, static_cast<P*>(k_));
    rows::pack_turned(k, num_rows_, 1, num_rows_, static_cast<P*>(k_turned_));
    rows::pack(v, num_rows_, 1, static_cast<P*>(v_));
    std::fill_n(static_cast<A*>(dk_), num_rows_ * d_, A{0});
    std::fill_n(static_cast<A*>(dv_), num_rows_ * d_, A{0});
  }

  void run(const HeadRows<const T>& dout, const HeadRows<const T>& out, const HeadRows<const A>& log_sum_exp,
           const HeadRows<T>& dq) {
    const Scratch<A> scales(columns_);
    std::fill_n(static_cast<A*>(scales), columns_, scale_);
    for_query_tiles(task_, [&](const Tile& tile) {
      pack_queries(tile, tokens(dout, tile.begin, tile.count), tokens(out, tile.begin, tile.count),
                   tokens(log_sum_exp, tile.begin, tile.count));
      see(tile);
      rows::unpack_turned<T, A>(dq_turned_, tile.num_columns, scales, tokens(dq, tile.begin, tile.count));
    });
  }

  void finish_keys(const HeadRows<A>& dk, const HeadRows<A>& dv) const {
    for (int64_t key = keys_.begin; key < keys_.end; ++key) {
      const A *from_k = dk_ + (key - keys_.begin) * d_, *from_v = dv_ + (key - keys_.begin) * d_;
      for (int64_t c = 0; c < d_; ++c) dk.row(key, 0)[c] = from_k[c] * scale_;
      std::copy_n(from_v, d_, dv.row(key, 0));
    }
  }

 private:
  void pack_queries(const Tile& tile, const HeadRows<const T>& dout, const HeadRows<const T>& out,
                    const HeadRows<const A>& log_sum_exp) {
    const int64_t columns = tile.num_columns;
    const auto q = tokens(task_.q, tile.begin, tile.count);
    rows::pack(q, columns, paired<P>, static_cast<P*>(q_));
    rows::pack_turned(q, columns, paired<P>, columns, static_cast<P*>(q_turned_));
    rows::pack(dout, columns, paired<P>, static_cast<P*>(dout_));
    rows::pack_turned(dout, columns, paired<P>, columns, static_cast<P*>(dout_turned_));
    rows::dots<T, A>(dout, out, dot_);
    int64_t column = 0;
    for (int64_t token = 0; token < tile.count; ++token)
      for (int64_t head = 0; head < task_.q.group; ++head)
        log_sum_exp_[column++] = *log_sum_exp.row(token, head);
    std::fill(dot_ + column, dot_ + columns, A{0});
    std::fill(log_sum_exp_ + column, log_sum_exp_ + columns, A{0});
  }

  void see(const Tile& tile) {
    const int64_t columns = tile.num_columns;
    for_key_tiles(tile.keys, keys_, [&](int64_t key, int64_t num_rows, int64_t row) {
      multiply(num_rows, columns, d_, k_ + row * d_, d_, q_turned_, columns, scores_, false);
      multiply(num_rows, columns, d_, v_ + row * d_, d_, dout_turned_, columns, dweights_, false);
      hide_unseen<A>(scores_, task_, tile, key, num_rows);
      rows::weigh_backward<A, P>(scores_, dweights_, num_rows, columns, scale_, log_sum_exp_, dot_, weights_,
                                 dscores_, dscores_packed_);
      multiply(num_rows, d_, columns, weights_, columns, dout_, d_, dv_ + row * d_, true);
      multiply(num_rows, d_, columns, dscores_, columns, q_, d_, dk_ + row * d_, true);
      multiply(d_, columns, num_rows, k_turned_ + row, num_rows_, packed_dscores(), columns, dq_turned_,
               key != tile.keys.begin);
    });
  }
  const P* packed_dscores() const { return paired<P> == 1 ? dscores_ : dscores_packed_; }

  const AttentionTask<T>& task_;
  const Keys keys_{task_, task_.q_begin, task_.q_end - 1};
  const int64_t num_rows_ = keys_.num_rows(), d_ = task_.q.head_dim, columns_ = max_columns(task_);
  const A scale_ = A{1} / std::sqrt(static_cast<A>(d_));
  Scratch<P> k_{num_rows_ * d_}, k_turned_{num_rows_ * d_}, v_{num_rows_ * d_};
  Scratch<A> dk_{num_rows_ * d_}, dv_{num_rows_ * d_};
  Scratch<P> q_{columns_ * d_}, q_turned_{columns_ * d_}, dout_{columns_ * d_}, dout_turned_{columns_ * d_};
  Scratch<A> dq_turned_{columns_ * d_}, scores_{columns_ * keys_per_tile},
      dweights_{columns_ * keys_per_tile};
  Scratch<P> weights_{columns_ * keys_per_tile}, dscores_{columns_ * keys_per_tile},
      dscores_packed_{columns_ * keys_per_tile};
  Scratch<A> log_sum_exp_{columns_}, dot_{columns_};
};

/// Calls body.template operator()<P>() with the type that products of T are done in.
template <class T, class Body>
void with_packed_type(int64_t head_dim, const Body& body) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (multiplies_bf16() && head_dim % paired<T> == 0) return body.template operator()<BFloat16>();
  }
  body.template operator()<Accumulate<T>>();
}

}  // namespace

int64_t tokens_per_tile(int64_t group) {
  return std::clamp<int64_t>(192 / group / rows_multiple * rows_multiple, rows_multiple, 128);
}

template <class T>
void attend_task(const AttentionTask<T>& task, const HeadRows<T>& out,
                 const HeadRows<Accumulate<T>>& log_sum_exp) {
  with_packed_type<T>(task.q.head_dim, [&]<class P>() { Forward<T, P>(task).run(out, log_sum_exp); });
}

template <class T>
void attend_task_backward(const AttentionTask<T>& task, const HeadRows<const T>& dout,
                          const HeadRows<const T>& out, const HeadRows<const Accumulate<T>>& log_sum_exp,
                          const HeadRows<T>& dq, const HeadRows<Accumulate<T>>& dk,
                          const HeadRows<Accumulate<T>>& dv) {
  with_packed_type<T>(task.q.head_dim, [&]<class P>() {
    Backward<T, P> backward(task);
    backward.run(dout, out, log_sum_exp, dq);
    backward.finish_keys(dk, dv);
  });
}

#define DUOKA_INSTANTIATE(T)                                                                              \
  template void attend_task(const AttentionTask<T>&, const HeadRows<T>&, const HeadRows<Accumulate<T>>&); \
  template void attend_task_backward(const AttentionTask<T>&, const HeadRows<const T>&,                   \
                                     const HeadRows<const T>&, const HeadRows<const Accumulate<T>>&,      \
                                     const HeadRows<T>&, const HeadRows<Accumulate<T>>&,                  \
                                     const HeadRows<Accumulate<T>>&);
DUOKA_INSTANTIATE(float)
DUOKA_INSTANTIATE(double)
DUOKA_INSTANTIATE(c10::Half)
DUOKA_INSTANTIATE(BFloat16)
#undef DUOKA_INSTANTIATE

}  // namespace duoka::model
