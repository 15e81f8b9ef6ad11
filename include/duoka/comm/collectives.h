// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/comm/group.h"

// n: ranks of the group. Every function here is collective: each rank of the group calls it, in the same
// order, with tensors of the same shape and dtype. Over a group of size 1 each is the identity (into a
// separate buffer: a copy) and returns at once.
//
// Tensors: contiguous, on the CPU (Gloo) or on the CUDA device the group was connected for (NCCL); f32, f64,
// f16, bf16, i32, i64, u8. Anything else is a StateError before a byte is sent. A peer that fails or a wait
// beyond the group's time-out is a CommError with operation, axis, rank and seconds; the group is of no
// use afterwards.

namespace duoka::comm {

enum class Op { sum, max, min };

class Work;

/// A collective on its way. Keeps the tensors alive until it is done.
class [[nodiscard]] Pending final {
 public:
  /// One that is done already.
  Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  /// Leaves unfinished work to finish (or fail) by itself; never waits, never throws.
  ~Pending();
  explicit Pending(std::unique_ptr<Work> work);

  /// Returns when the result is there; on CUDA, when the current stream will see it. A second wait()
  /// returns at once, also after an error. Throws CommError.
  void wait();

 private:
  std::unique_ptr<Work> work_;
};

/// Combines `x` over the ranks, in place. Returns at once; the result is there after Pending::wait(), and
/// `x` may not be touched before.
/// Exactness: all ranks get the same bits, and the same inputs give the same bits in every run. With n = 2 a
/// sum is a + b rounded once, in the dtype of x. With n > 2 the order of additions depends on n, on the size
/// and on the element's place in x, so another layout of the same numbers may differ in the last bit; f16 and
/// bf16 may be rounded after each of the n-1 additions. max and min are exact; NaN is not promised to win.
/// Sends about 2(n-1)/n * nbytes(x) a rank.
Pending start_all_reduce(at::Tensor& x, Op op, const Group& group);
/// start_all_reduce() and wait().
void all_reduce(at::Tensor& x, Op op, const Group& group);

/// `x` of rank `root` becomes that of every rank, bit for bit.
Pending start_broadcast(at::Tensor& x, int root, const Group& group);
void broadcast(at::Tensor& x, int root, const Group& group);

/// out, flattened: [n, numel(in)], row r is rank r's `in`. numel(out) = n * numel(in), same dtype.
Pending start_all_gather_into(at::Tensor& out, const at::Tensor& in, const Group& group);
void all_gather_into(at::Tensor& out, const at::Tensor& in, const Group& group);

/// `in`, flattened: [n, numel(out)]; out = row `rank` of the sum of all ranks' `in`: on CPUs added rank by
/// rank, f16 and bf16 in f32 and rounded once; over NCCL as in start_all_reduce(). Sends (n-1)/n * nbytes(in)
/// a rank; over Gloo, below what near memory takes, it holds as much as `in` once more until it is done.
Pending start_reduce_scatter_into(at::Tensor& out, const at::Tensor& in, const Group& group);
void reduce_scatter_into(at::Tensor& out, const at::Tensor& in, const Group& group);

/// `in`, flattened: [n, m]; row r goes to rank r. out [n, m]: row r is what rank r had for this one.
Pending start_all_to_all_into(at::Tensor& out, const at::Tensor& in, const Group& group);
void all_to_all_into(at::Tensor& out, const at::Tensor& in, const Group& group);

/// Sends `x` to rank `to` of the group, which receives it with the same shape, dtype and tag. Not collective.
/// Returns at once; `x` may not be changed before Pending::wait(), which waits until the peer has it (Gloo)
/// or the current stream may go on (NCCL). Over Gloo messages to one peer may be received in any order of
/// tags; NCCL knows no tags: send and receive in the same order on both sides. Throws StateError for a peer
/// that is not another rank of the group.
Pending start_send(const at::Tensor& x, int to, int tag, const Group& group);
Pending start_receive(at::Tensor& x, int from, int tag, const Group& group);

/// Returns when every rank has come here.
void barrier(const Group& group);

/// `words` of rank `root` become those of every rank. For small things (a folder's name, a line of JSON):
/// at most 64 MiB, else StateError.
void broadcast_text(std::string& words, int root, const Group& group);
/// Entry r is rank r's `words`; the same limit for all of them together.
std::vector<std::string> all_gather_text(const std::string& words, const Group& group);

}  // namespace duoka::comm
