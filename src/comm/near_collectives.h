// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/in_order.h"
#include "comm/near_memory.h"
#include "comm/wires.h"
#include "duoka/comm/collectives.h"

namespace duoka::comm {

/// What a rank says at each meeting of a collective. All but the address must be alike on all ranks.
struct NearPost {
  int64_t number = 0;  ///< Meetings before this one.
  Operation operation = Operation::all_reduce;
  Op op = Op::sum;
  at::ScalarType dtype = at::kByte;
  int32_t root = 0;
  int64_t numel = 0;     ///< Of what is read from a rank.
  uint64_t address = 0;  ///< Where it lies.
};

/// How ranks meet: each gives a post and gets those of all, by rank, when all have come. Called by one
/// thread.
class NearMeeting {
 public:
  virtual ~NearMeeting() = default;
  /// Throws what the transport throws when a rank fails, or has not come after `timeout`.
  virtual std::vector<NearPost> meet(const NearPost& own, std::chrono::milliseconds timeout) = 0;
};

/// Collectives in which each rank reads what it needs out of its peers' memory. Nobody writes into another's.
///
/// n ranks, tensors on the CPU. They run on a thread of their own, one after another in the order of calls,
/// beside what the caller computes. All ranks call them in the same order, so that is the order everywhere.
///
/// Meetings, the fewest that are right:
///  - the first, before anything is read: all have come, so each tensor holds what it should. Posts are
///  compared:
///    ranks that want different things are an error on all of them, which says who wanted what.
///  - the last, after all has been read: until then nobody may change what a peer may still be reading.
///  - all_reduce has one between them. Each rank combines one part of n over all ranks, in place; then all
///  read
///    the other parts. Parts are read unsummed by their owner only, so that one meeting tells both that the
///    sums are there and that what is overwritten by the reading has been read.
///
/// Sums are made in the order of ranks; f16 and bf16 in f32, rounded once. All ranks get the same bits.
/// Memory: n pieces of 64 KiB. A rank that fails leaves its tensors to nobody: what peers read then may be
/// anything, but the next meeting fails, so no wrong result is ever given out. After a failure every later
/// collective fails.
class NearCollectives final {
 public:
  NearCollectives(int rank, int size, std::chrono::milliseconds timeout, std::unique_ptr<NearMemory> memory,
                  std::unique_ptr<NearMeeting> meeting);

  std::unique_ptr<Transfer> all_reduce(const at::Tensor& x, Op op);
  std::unique_ptr<Transfer> broadcast(const at::Tensor& x, int root);
  std::unique_ptr<Transfer> all_gather(const at::Tensor& out, const at::Tensor& in);
  std::unique_ptr<Transfer> reduce_scatter(const at::Tensor& out, const at::Tensor& in);
  std::unique_ptr<Transfer> all_to_all(const at::Tensor& out, const at::Tensor& in);

  /// A collective is under way; destruction would wait for it.
  bool is_busy() const { return queue_.is_busy(); }

 private:
  struct Call;
  using Posts = std::vector<NearPost>;
  using Clock = std::chrono::steady_clock;

  std::unique_ptr<Transfer> start(const Call& call);
  void run(const Call& call);
  Posts meet(const Call& call, Clock::time_point deadline);
  void check(const Posts& posts) const;
  void reduce(const Call& call, const Posts& posts, int64_t begin, int64_t numel, void* out);
  void gather_parts(const Call& call, const Posts& posts);
  void read_rows(const Call& call, const Posts& posts, int64_t row, int64_t numel);
  template <class Visit>
  void each_peer(Visit&& visit) const;

  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<NearMemory> memory_;
  std::unique_ptr<NearMeeting> meeting_;
  int64_t num_meetings_ = 0;
  std::vector<char> pieces_;  ///< One of each peer, while they are combined.
  InOrder queue_;             ///< Last: its thread uses the others.
};

}  // namespace duoka::comm
