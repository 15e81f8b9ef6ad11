// SPDX-License-Identifier: Apache-2.0
#include "duoka/comm/collectives.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "comm/wires.h"
#include "comm/work.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

constexpr std::array supported_dtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                         at::kInt,   at::kLong,   at::kByte};

[[noreturn]] void refuse(Operation operation, const Group& group, const std::string& why) {
  throw StateError(
      text(operation_name(operation), " over axis '", group.axis(), "' on rank ", group.rank(), ": ", why));
}

void check_tensor(const at::Tensor& x, Operation operation, const Group& group) {
  if (!x.defined()) refuse(operation, group, "the tensor is undefined");
  if (!x.is_contiguous())
    refuse(operation, group, text("a tensor of shape ", x.sizes(), " is not contiguous"));
  if (std::ranges::find(supported_dtypes, x.scalar_type()) == supported_dtypes.end())
    refuse(operation, group,
           text("dtype ", x.scalar_type(), " is not one of f32, f64, f16, bf16, i32, i64, u8"));
  if (group.wires() != nullptr && !group.wires()->reaches(x.device()))
    refuse(operation, group,
           text("the tensor lies on ", x.device(), ", which ", group.transport(), " does not reach"));
}

/// `many` must hold one `one` a rank.
void check_rows(const at::Tensor& many, const at::Tensor& one, Operation operation, const Group& group) {
  check_tensor(many, operation, group);
  check_tensor(one, operation, group);
  if (many.scalar_type() != one.scalar_type() || many.device() != one.device())
    refuse(operation, group, text("out and in differ: ", many.toString(), " and ", one.toString()));
  if (many.numel() != one.numel() * group.size())
    refuse(
        operation, group,
        text("sizes ", many.sizes(), " and ", one.sizes(), " do not fit: wanted a factor of ", group.size()));
}

void check_root(int root, Operation operation, const Group& group) {
  if (root < 0 || root >= group.size())
    refuse(operation, group, text("there is no rank ", root, " of ", group.size()));
}

void check_peer(int peer, Operation operation, const Group& group) {
  check_root(peer, operation, group);
  if (peer == group.rank()) refuse(operation, group, text("rank ", peer, " is this rank itself"));
}

/// Counts, starts, and gives an error at the start the same words as one at the end.
template <class Start>
Pending start(Operation operation, int64_t bytes, const Group& group, Start&& start_transfer) {
  group.traffic().add(operation, bytes);
  std::unique_ptr<Transfer> transfer;
  try {
    transfer = start_transfer(*group.wires());
  } catch (const std::exception& error) {
    throw_failed(operation, group.axis(), group.rank(), group.size(), 0, transport_reason(error));
  }
  return Pending(std::make_unique<Work>(std::move(transfer), operation, group));
}

int64_t num_bytes(const at::Tensor& x) { return static_cast<int64_t>(x.nbytes()); }

}  // namespace

Pending start_all_reduce(at::Tensor& x, Op op, const Group& group) {
  check_tensor(x, Operation::all_reduce, group);
  if (group.size() == 1 || x.numel() == 0) return {};
  return start(Operation::all_reduce, num_bytes(x), group,
               [&](Wires& wires) { return wires.all_reduce(x, op); });
}

Pending start_broadcast(at::Tensor& x, int root, const Group& group) {
  check_tensor(x, Operation::broadcast, group);
  check_root(root, Operation::broadcast, group);
  if (group.size() == 1 || x.numel() == 0) return {};
  return start(Operation::broadcast, num_bytes(x), group,
               [&](Wires& wires) { return wires.broadcast(x, root); });
}

Pending start_all_gather_into(at::Tensor& out, const at::Tensor& in, const Group& group) {
  check_rows(out, in, Operation::all_gather, group);
  if (group.size() == 1) out.view(-1).copy_(in.view(-1));
  if (group.size() == 1 || in.numel() == 0) return {};
  return start(Operation::all_gather, num_bytes(in), group,
               [&](Wires& wires) { return wires.all_gather(out, in); });
}

Pending start_reduce_scatter_into(at::Tensor& out, const at::Tensor& in, const Group& group) {
  check_rows(in, out, Operation::reduce_scatter, group);
  if (group.size() == 1) out.view(-1).copy_(in.view(-1));
  if (group.size() == 1 || out.numel() == 0) return {};
  return start(Operation::reduce_scatter, num_bytes(in), group,
               [&](Wires& wires) { return wires.reduce_scatter(out, in); });
}

Pending start_all_to_all_into(at::Tensor& out, const at::Tensor& in, const Group& group) {
  check_tensor(in, Operation::all_to_all, group);
  check_tensor(out, Operation::all_to_all, group);
  if (out.numel() != in.numel() || in.numel() % group.size() != 0 || out.scalar_type() != in.scalar_type())
    refuse(Operation::all_to_all, group,
           text("out ", out.toString(), out.sizes(), " and in ", in.toString(), in.sizes(),
                " do not fit: wanted the same dtype and size, a multiple of ", group.size()));
  if (group.size() == 1) out.view(-1).copy_(in.view(-1));
  if (group.size() == 1 || in.numel() == 0) return {};
  return start(Operation::all_to_all, num_bytes(in), group,
               [&](Wires& wires) { return wires.all_to_all(out, in); });
}

Pending start_send(const at::Tensor& x, int to, int tag, const Group& group) {
  check_tensor(x, Operation::send, group);
  check_peer(to, Operation::send, group);
  if (x.numel() == 0) return {};
  return start(Operation::send, num_bytes(x), group, [&](Wires& wires) { return wires.send(x, to, tag); });
}

Pending start_receive(at::Tensor& x, int from, int tag, const Group& group) {
  check_tensor(x, Operation::receive, group);
  check_peer(from, Operation::receive, group);
  if (x.numel() == 0) return {};
  return start(Operation::receive, 0, group, [&](Wires& wires) { return wires.receive(x, from, tag); });
}

void all_reduce(at::Tensor& x, Op op, const Group& group) { start_all_reduce(x, op, group).wait(); }

void broadcast(at::Tensor& x, int root, const Group& group) { start_broadcast(x, root, group).wait(); }

void all_gather_into(at::Tensor& out, const at::Tensor& in, const Group& group) {
  start_all_gather_into(out, in, group).wait();
}

void reduce_scatter_into(at::Tensor& out, const at::Tensor& in, const Group& group) {
  start_reduce_scatter_into(out, in, group).wait();
}

void all_to_all_into(at::Tensor& out, const at::Tensor& in, const Group& group) {
  start_all_to_all_into(out, in, group).wait();
}

void barrier(const Group& group) {
  if (group.size() == 1) return;
  start(Operation::barrier, 0, group, [](Wires& wires) { return wires.barrier(); }).wait();
}

}  // namespace duoka::comm
