// SPDX-License-Identifier: Apache-2.0
#include "comm/near_collectives.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <string>
#include <utility>

#include "comm/sum_rows.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

using std::chrono::milliseconds;

/// A piece of each rank is combined while it lies in the second-level cache, where the kernel has just put
/// it.
constexpr int64_t piece_bytes = int64_t{64} << 10;
/// Parts begin at multiples of so many elements: whole cache lines.
constexpr int64_t part_step = 64;
/// How much longer than the meetings may take a wait is: their message is the better one.
constexpr milliseconds wait_margin{2000};

class NearTransfer final : public Transfer {
 public:
  NearTransfer(std::future<void> done, milliseconds timeout) : done_(std::move(done)), timeout_(timeout) {}
  void wait() override {
    if (done_.wait_for(timeout_ + wait_margin) != std::future_status::ready)
      throw CommError(text("not done after ", timeout_.count(), " ms, waiting for collectives before it"));
    done_.get();
  }

 private:
  std::future<void> done_;
  milliseconds timeout_;
};

const char* op_name(Op op) { return op == Op::sum ? "sum" : op == Op::max ? "max" : "min"; }

/// "all_reduce (sum) of 4096 Float".
std::string wish(const NearPost& post) {
  std::string out = operation_name(post.operation);
  if (post.operation == Operation::all_reduce) out += text(" (", op_name(post.op), ")");
  if (post.operation == Operation::broadcast) out += text(" from rank ", post.root);
  return text(out, " of ", post.numel, " ", post.dtype);
}

bool wants_the_same(const NearPost& a, const NearPost& b) {
  return a.number == b.number && a.operation == b.operation && a.op == b.op && a.dtype == b.dtype &&
         a.root == b.root && a.numel == b.numel;
}

struct Part {
  int64_t begin;
  int64_t numel;
};

/// Part `index` of `numel` elements cut into `num_parts`; the last ones may be short or empty.
Part part_of(int64_t numel, int num_parts, int index) {
  const int64_t even = (numel + num_parts - 1) / num_parts;
  const int64_t each = (even + part_step - 1) / part_step * part_step;
  const int64_t begin = std::min(numel, index * each);
  return {begin, std::min(numel, begin + each) - begin};
}

}  // namespace

/// A collective as it was asked for. Holds its tensors.
struct NearCollectives::Call {
  Operation operation;
  at::Tensor in, out;
  Op op = Op::sum;
  int root = 0;
  int64_t element_bytes = static_cast<int64_t>(in.element_size());
  // In this order: asking for what may be written moves a tensor that shares its memory with another.
  char* to = static_cast<char*>(out.mutable_data_ptr());
  const char* from = static_cast<const char*>(in.const_data_ptr());
};

NearCollectives::NearCollectives(int rank, int size, milliseconds timeout, std::unique_ptr<NearMemory> memory,
                                 std::unique_ptr<NearMeeting> meeting)
    : rank_(rank), size_(size), timeout_(timeout), memory_(std::move(memory)), meeting_(std::move(meeting)) {}

std::unique_ptr<Transfer> NearCollectives::all_reduce(const at::Tensor& x, Op op) {
  return start({.operation = Operation::all_reduce, .in = x, .out = x, .op = op});
}

std::unique_ptr<Transfer> NearCollectives::broadcast(const at::Tensor& x, int root) {
  return start({.operation = Operation::broadcast, .in = x, .out = x, .root = root});
}

std::unique_ptr<Transfer> NearCollectives::all_gather(const at::Tensor& out, const at::Tensor& in) {
  return start({.operation = Operation::all_gather, .in = in, .out = out});
}

std::unique_ptr<Transfer> NearCollectives::reduce_scatter(const at::Tensor& out, const at::Tensor& in) {
  return start({.operation = Operation::reduce_scatter, .in = in, .out = out});
}

std::unique_ptr<Transfer> NearCollectives::all_to_all(const at::Tensor& out, const at::Tensor& in) {
  return start({.operation = Operation::all_to_all, .in = in, .out = out});
}

std::unique_ptr<Transfer> NearCollectives::start(const Call& call) {
  return std::make_unique<NearTransfer>(queue_.run([this, call] { run(call); }), timeout_);
}

void NearCollectives::run(const Call& call) {
  const auto deadline = Clock::now() + timeout_;
  const Posts posts = meet(call, deadline);
  const int64_t numel = call.in.numel();
  switch (call.operation) {
    case Operation::all_reduce: {
      const Part own = part_of(numel, size_, rank_);
      reduce(call, posts, own.begin, own.numel, call.to + own.begin * call.element_bytes);
      meet(call, deadline);
      gather_parts(call, posts);
      break;
    }
    case Operation::reduce_scatter:
      reduce(call, posts, rank_ * (numel / size_), numel / size_, call.to);
      break;
    case Operation::broadcast:
      if (rank_ != call.root)
        memory_->read(call.root, posts[static_cast<size_t>(call.root)].address, call.to,
                      numel * call.element_bytes);
      break;
    case Operation::all_gather:
      read_rows(call, posts, 0, numel);
      break;
    case Operation::all_to_all:
      read_rows(call, posts, rank_, numel / size_);
      break;
    default:
      throw StateError(text(operation_name(call.operation), " does not go through near memory"));
  }
  meet(call, deadline);
}

NearCollectives::Posts NearCollectives::meet(const Call& call, Clock::time_point deadline) {
  const NearPost own{.number = num_meetings_++,
                     .operation = call.operation,
                     .op = call.op,
                     .dtype = call.in.scalar_type(),
                     .root = call.root,
                     .numel = call.in.numel(),
                     .address = reinterpret_cast<uint64_t>(call.from)};
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  Posts posts = meeting_->meet(own, std::max(left, milliseconds(1)));
  check(posts);
  return posts;
}

void NearCollectives::check(const Posts& posts) const {
  const auto same = [&](const NearPost& post) { return wants_the_same(post, posts.front()); };
  if (std::ranges::all_of(posts, same)) return;
  std::string wishes;
  for (size_t rank = 0; rank < posts.size(); ++rank)
    wishes += text(rank == 0 ? "rank " : ", rank ", rank, " ", wish(posts[rank]));
  throw CommError(text("ranks want different things: ", wishes));
}

/// out = elements [begin, begin + numel) of all ranks, combined. `out` may be the same elements of this one.
void NearCollectives::reduce(const Call& call, const Posts& posts, int64_t begin, int64_t numel, void* out) {
  pieces_.resize(static_cast<size_t>(size_ * piece_bytes));
  std::vector<const void*> rows(static_cast<size_t>(size_));
  const int64_t step = piece_bytes / call.element_bytes;
  for (int64_t done = 0; done < numel; done += step) {
    const int64_t count = std::min(step, numel - done);
    const int64_t offset = (begin + done) * call.element_bytes;
    rows[static_cast<size_t>(rank_)] = call.from + offset;
    each_peer([&](int peer) {
      char* piece = pieces_.data() + peer * piece_bytes;
      memory_->read(peer, posts[static_cast<size_t>(peer)].address + static_cast<uint64_t>(offset), piece,
                    count * call.element_bytes);
      rows[static_cast<size_t>(peer)] = piece;
    });
    combine_rows(rows, static_cast<char*>(out) + done * call.element_bytes, count, call.in.scalar_type(),
                 call.op);
  }
}

/// The end of an all-reduce: each peer has combined its own part.
void NearCollectives::gather_parts(const Call& call, const Posts& posts) {
  each_peer([&](int peer) {
    const Part part = part_of(call.in.numel(), size_, peer);
    const int64_t offset = part.begin * call.element_bytes;
    memory_->read(peer, posts[static_cast<size_t>(peer)].address + static_cast<uint64_t>(offset),
                  call.to + offset, part.numel * call.element_bytes);
  });
}

/// Row r of `out` [n, numel] = row `row` of what rank r brought.
void NearCollectives::read_rows(const Call& call, const Posts& posts, int64_t row, int64_t numel) {
  const int64_t row_bytes = numel * call.element_bytes;
  const int64_t offset = row * row_bytes;
  char* const own = call.to + rank_ * row_bytes;
  if (own != call.from + offset) std::memcpy(own, call.from + offset, static_cast<size_t>(row_bytes));
  each_peer([&](int peer) {
    memory_->read(peer, posts[static_cast<size_t>(peer)].address + static_cast<uint64_t>(offset),
                  call.to + peer * row_bytes, row_bytes);
  });
}

/// Begins with the next rank, so that not all read from one at once.
template <class Visit>
void NearCollectives::each_peer(Visit&& visit) const {
  for (int i = 1; i < size_; ++i) visit((rank_ + i) % size_);
}

}  // namespace duoka::comm
