// SPDX-License-Identifier: Apache-2.0
#include "model/attention_ring.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "duoka/core/error.h"
#include "duoka/core/stream_cut.h"
#include "duoka/core/text.h"
#include "model/attention_piece.h"
#include "model/row_loop.h"

namespace duoka::model {

std::vector<AttentionPiece> ring_pieces(const std::vector<int64_t>& row_lengths, int rank, int source,
                                        int size) {
  std::vector<AttentionPiece> pieces;
  int64_t q_begin = 0, k_begin = 0;
  for (const int64_t length : row_lengths) {
    const RowPart q = row_part(length, rank, size), k = row_part(length, source, size);
    AttentionPiece piece{q_begin, q.length(), k_begin, k.length(), source == rank};
    if (source < rank) piece.k_length = k.low_length;  // its high chunk comes after all of ours
    if (source > rank) {                               // it lies between our low chunk and our high one
      piece.q_begin += q.low_length;
      piece.q_length = q.high_length;
    }
    if (piece.q_length > 0 && piece.k_length > 0) pieces.push_back(piece);
    q_begin += q.length();
    k_begin += k.length();
  }
  return pieces;
}

namespace {

/// A block that has been sent on, and the one that comes for it.
struct Shift {
  std::unique_ptr<ContextAxis::Exchange> exchange;
  at::Tensor sent, received;

  at::Tensor finish() const {
    exchange->finish();
    return received;
  }
};

/// One rank's way through the blocks of all: in step t it has that of rank - t.
class Ring {
 public:
  Ring(const ContextAxis& axis, const Stream& stream, int64_t window) : axis_(axis), stream_(stream) {
    if (num_tokens(axis.rank()) != stream.num_tokens())
      throw StateError(text("attention on rank ", axis.rank(), " of ", axis.size(),
                            " of the context axis: a stream of ", stream.num_tokens(),
                            " tokens that is not this rank's part; wanted that of cut_stream()"));
    if (window > 0 && window < stream.max_segment)
      throw StateError(text("ring attention knows no sliding windows: rows of ", stream.max_segment,
                            " tokens, window ", window, "; see check_context_parallel()"));
  }

  int num_steps() const { return axis_.size(); }
  std::vector<AttentionPiece> pieces(int step) const {
    return ring_pieces(stream_.row_lengths, axis_.rank(), source(step), axis_.size());
  }

  /// Sends on step's block [2, n, Hkv, d]; what comes is that of the next step.
  Shift start_shift(const at::Tensor& block, int step) const {
    auto shape = block.sizes().vec();
    shape[1] = num_tokens(source(step + 1));
    const at::Tensor received = at::empty(shape, block.options());
    return {axis_.start_exchange(block, received), block, received};
  }

 private:
  int source(int step) const { return (axis_.rank() - step + 2 * axis_.size()) % axis_.size(); }
  int64_t num_tokens(int rank) const {
    int64_t total = 0;
    for (const int64_t length : stream_.row_lengths) total += row_part(length, rank, axis_.size()).length();
    return total;
  }

  const ContextAxis& axis_;
  const Stream& stream_;
};

at::Tensor queries(const at::Tensor& q, const AttentionPiece& piece) {
  return q.narrow(0, piece.q_begin, piece.q_length);
}
/// `which` 0: keys of a block, 1: its values.
at::Tensor keys(const at::Tensor& block, int64_t which, const AttentionPiece& piece) {
  return block.select(0, which).narrow(0, piece.k_begin, piece.k_length);
}

/// What queries saw of one set of keys and of another -> of both. With weights e^a and e^b the mean of the
/// outputs has weight sigmoid(b - a) for the second.
void merge_(at::Tensor out, at::Tensor log_sum_exp, const PieceAttended& more) {
  const at::Tensor weight = at::sigmoid(more.log_sum_exp - log_sum_exp);
  out.lerp_(more.out.to(out.scalar_type()), weight.unsqueeze(-1));
  log_sum_exp.copy_(at::logaddexp(log_sum_exp, more.log_sum_exp));
}

void require_whole_rows(const Stream& stream) {
  if (stream.row_lengths.empty()) return;
  throw StateError("attention of one rank over a stream that cut_stream() made; wanted whole rows");
}

}  // namespace

size_t num_ring_context(const ContextAxis& axis, const at::Tensor& q) {
  return axis.is_solo() ? num_context(choose_attention_kernel(q)) : 1;
}

Attended attend_ring(const ContextAxis& axis, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const Stream& stream, int64_t window) {
  if (axis.is_solo()) {
    require_whole_rows(stream);
    return attend(q, k, v, stream, window);
  }
  const Ring ring(axis, stream, window);
  const at::Tensor by_group = grouped(q, k.size(1));
  const auto wide = q.options().dtype(accumulate_dtype(q.scalar_type()));
  const at::Tensor out = at::empty(by_group.sizes(), wide),
                   log_sum_exp = at::empty(by_group.sizes().slice(0, 3), wide);
  at::Tensor block = at::stack({k, v});
  for (int step = 0; step < ring.num_steps(); ++step) {
    const bool is_last = step + 1 == ring.num_steps();
    const Shift next = is_last ? Shift{} : ring.start_shift(block, step);
    for (const AttentionPiece& piece : ring.pieces(step)) {
      const auto seen = attend_piece(queries(by_group, piece), keys(block, 0, piece), keys(block, 1, piece),
                                     piece.is_causal);
      if (step > 0) {
        merge_(queries(out, piece), queries(log_sum_exp, piece), seen);
      } else {  // every query sees itself at least
        queries(out, piece).copy_(seen.out);
        queries(log_sum_exp, piece).copy_(seen.log_sum_exp);
      }
    }
    if (!is_last) block = next.finish();
  }
  return {out.to(q.scalar_type()).flatten(1, 2), {log_sum_exp.flatten(1)}};
}

AttentionGradients attend_ring_backward(const ContextAxis& axis, const at::Tensor& dout, const at::Tensor& q,
                                        const at::Tensor& k, const at::Tensor& v, const Attended& attended,
                                        const Stream& stream, int64_t window) {
  if (axis.is_solo()) return attend_backward(dout, q, k, v, attended, stream, window);
  const Ring ring(axis, stream, window);
  const int64_t num_kv_heads = k.size(1);
  const at::Tensor by_group = grouped(q, num_kv_heads), dby_group = grouped(dout, num_kv_heads),
                   out = grouped(attended.out, num_kv_heads),
                   log_sum_exp = grouped(attended.context[0], num_kv_heads);
  const auto wide = accumulate_dtype(q.scalar_type());
  const at::Tensor dq = at::zeros_like(by_group, wide);
  at::Tensor block = at::stack({k, v}), own;
  Shift gradients;  // of the block at hand, from the ranks that had it before
  for (int step = 0; step < ring.num_steps(); ++step) {
    const bool is_last = step + 1 == ring.num_steps();
    const Shift next = is_last ? Shift{} : ring.start_shift(block, step);
    at::Tensor dblock = at::zeros_like(block, wide);
    for (const AttentionPiece& piece : ring.pieces(step)) {
      const auto d = attend_piece_backward(
          queries(dby_group, piece), queries(by_group, piece), keys(block, 0, piece), keys(block, 1, piece),
          {queries(out, piece), queries(log_sum_exp, piece)}, piece.is_causal);
      queries(dq, piece).add_(d.dq);
      keys(dblock, 0, piece).copy_(d.dk);
      keys(dblock, 1, piece).copy_(d.dv);
    }
    if (step == 0) {
      own = dblock;  // stays; the others' come home in the end
    } else {
      if (step > 1) dblock.add_(gradients.finish());
      gradients = ring.start_shift(dblock, step);
    }
    if (!is_last) block = next.finish();
  }
  own.add_(gradients.finish());
  const auto narrow = [&](const at::Tensor& d) { return d.to(q.scalar_type()); };
  return {narrow(dq.flatten(1, 2)), narrow(own.select(0, 0)), narrow(own.select(0, 1))};
}

}  // namespace duoka::model
