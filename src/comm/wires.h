// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "duoka/comm/collectives.h"

namespace duoka::comm {

/// One collective under way on some transport. Keeps its tensors alive.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Throws whatever the transport throws; not more than a little later than the wires' time-out.
  virtual void wait() = 0;
};

/// What moves bytes for a group: the whole of what a transport has to offer. Arguments were checked by the
/// caller. Starting never waits for a peer; destruction neither.
class Wires {
 public:
  Wires(int rank, int size, std::chrono::milliseconds timeout)
      : rank_(rank), size_(size), timeout_(timeout) {}
  virtual ~Wires() = default;
  Wires(const Wires&) = delete;
  Wires& operator=(const Wires&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  virtual std::string transport() const = 0;
  /// Whether tensors on `device` can be sent.
  virtual bool reaches(const at::Device& device) const = 0;

  virtual std::unique_ptr<Transfer> all_reduce(at::Tensor& x, Op op) = 0;
  virtual std::unique_ptr<Transfer> broadcast(at::Tensor& x, int root) = 0;
  virtual std::unique_ptr<Transfer> all_gather(at::Tensor& out, const at::Tensor& in) = 0;
  virtual std::unique_ptr<Transfer> reduce_scatter(at::Tensor& out, const at::Tensor& in) = 0;
  /// Row r of `in` goes to rank r, row r of `out` comes from it.
  virtual std::unique_ptr<Transfer> all_to_all(at::Tensor& out, const at::Tensor& in) = 0;
  virtual std::unique_ptr<Transfer> send(const at::Tensor& x, int to, int tag) = 0;
  virtual std::unique_ptr<Transfer> receive(at::Tensor& x, int from, int tag) = 0;
  virtual std::unique_ptr<Transfer> barrier() = 0;

  /// Wires among some of these ranks, of which this is number `rank` of `size`. Collective among them;
  /// `label` is the same on each and unlike that of any other wires.
  virtual std::shared_ptr<Wires> split(const std::string& label, int rank, int size) = 0;
  /// Number of this split, counted from 0; each rank splits equally often.
  int next_split() { return num_splits_++; }

 private:
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  int num_splits_ = 0;
};

}  // namespace duoka::comm
