// SPDX-License-Identifier: Apache-2.0
// Collectives by c10d: Gloo's, NCCL's, and those of near memory, which meet over Gloo.
#include "comm/c10d_backend.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "comm/c10d_near.h"
#include "comm/c10d_store.h"
#include "comm/nccl.h"
#include "comm/work.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

using std::chrono::milliseconds;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

/// How much longer than the transport's own time-out a wait may take: the transport's message is the better
/// one.
constexpr milliseconds timeout_margin{2000};

/// An all-reduce by near memory has a meeting more than the others, and two passes over its parts: it must be
/// so many times larger to gain by it.
constexpr int64_t all_reduce_factor = 4;

/// A work of c10d until somebody has waited for it. Not all kinds of work know themselves whether they are
/// completed, and each holds its tensors.
class Tracked final {
 public:
  explicit Tracked(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  void wait(milliseconds timeout) {
    // Let go of also when it fails; the flag stays for those who must not wait for it any more.
    const auto work = std::exchange(work_, {});
    is_failed_ = true;
    work->wait(timeout);
    is_failed_ = false;
  }
  bool is_unfinished() const { return is_failed_ || (work_ && !work_->isCompleted()); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  bool is_failed_ = false;
};

class C10dTransfer final : public Transfer {
 public:
  C10dTransfer(std::shared_ptr<Tracked> work, milliseconds timeout)
      : work_(std::move(work)), timeout_(timeout) {}
  void wait() override { work_->wait(timeout_ + timeout_margin); }

 private:
  std::shared_ptr<Tracked> work_;
  milliseconds timeout_;
};

/// `out` is the sum of the rows that an exchange brings; f16 and bf16 are rounded once.
class SumOfRows final : public Transfer {
 public:
  SumOfRows(std::unique_ptr<Transfer> exchange, at::Tensor rows, at::Tensor out)
      : exchange_(std::move(exchange)), rows_(std::move(rows)), out_(out.view(-1)) {}
  void wait() override {
    exchange_->wait();
    at::sum_out(out_, rows_, at::IntArrayRef{0}, /*keepdim=*/false, out_.scalar_type());
  }

 private:
  std::unique_ptr<Transfer> exchange_;
  at::Tensor rows_, out_;
};

c10d::ReduceOp reduce_op(Op op) {
  switch (op) {
    case Op::sum:
      return c10d::ReduceOp::SUM;
    case Op::max:
      return c10d::ReduceOp::MAX;
    case Op::min:
      return c10d::ReduceOp::MIN;
  }
  throw StateError("unknown reduction");
}

// The two collectives over one flat buffer have changed names between versions of libtorch.
template <class Backend>
auto gather_flat(Backend& backend, at::Tensor& out, at::Tensor& in) {
  if constexpr (requires { backend.all_gather_single(out, in); })
    return backend.all_gather_single(out, in);
  else
    return backend._allgather_base(out, in);
}

template <class Backend>
auto scatter_flat(Backend& backend, at::Tensor& out, at::Tensor& in) {
  if constexpr (requires { backend.reduce_scatter_single(out, in); })
    return backend.reduce_scatter_single(out, in);
  else
    return backend._reduce_scatter_base(out, in);
}

class C10dWires final : public Wires {
 public:
  C10dWires(std::shared_ptr<KeyStore> store, BackendPtr gloo, BackendPtr nccl, const WiresOptions& options)
      : Wires(options.rank, options.size, options.timeout),
        store_(std::move(store)),
        gloo_(std::move(gloo)),
        nccl_(std::move(nccl)),
        near_(connect_near(gloo_, calls_, options)),
        options_(options) {}

  ~C10dWires() override {
    if (!has_unfinished()) return;
    // Destructors wait for what is under way, up to the time-out when a peer is stuck. A failing rank has to
    // go now, so they wait on a thread of their own; the wires close as soon as they can.
    std::thread([store = std::move(store_), gloo = std::move(gloo_), nccl = std::move(nccl_),
                 near = std::move(near_)]() mutable {
      near.reset();
      gloo.reset();
      nccl.reset();
    }).detach();
  }

  std::string transport() const override {
    return text("gloo", near_ ? " + cma" : "", nccl_ ? " + nccl" : "");
  }

  bool reaches(const at::Device& device) const override {
    return device.is_cpu() || (nccl_ && device.is_cuda() && device.index() == options_.cuda_device);
  }

  std::unique_ptr<Transfer> all_reduce(at::Tensor& x, Op op) override {
    if (is_near(x, all_reduce_factor)) return near_->all_reduce(x, op);
    std::vector<at::Tensor> tensors = {x};
    c10d::AllreduceOptions options;
    options.reduceOp = reduce_op(op);
    options.timeout = timeout();
    return start(x, [&](c10d::Backend& backend) { return backend.allreduce(tensors, options); });
  }

  std::unique_ptr<Transfer> broadcast(at::Tensor& x, int root) override {
    if (is_near(x)) return near_->broadcast(x, root);
    std::vector<at::Tensor> tensors = {x};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    options.timeout = timeout();
    return start(x, [&](c10d::Backend& backend) { return backend.broadcast(tensors, options); });
  }

  std::unique_ptr<Transfer> all_gather(at::Tensor& out, const at::Tensor& in) override {
    if (is_near(out)) return near_->all_gather(out, in);
    at::Tensor flat_out = out.view(-1);
    at::Tensor flat_in = in.view(-1);
    return start(in, [&](c10d::Backend& backend) { return gather_flat(backend, flat_out, flat_in); });
  }

  std::unique_ptr<Transfer> reduce_scatter(at::Tensor& out, const at::Tensor& in) override {
    if (is_near(in)) return near_->reduce_scatter(out, in);
    // c10d's own over Gloo is an all-reduce of a copy: twice the bytes.
    if (in.is_cpu()) {
      at::Tensor rows = at::empty({size(), out.numel()}, in.options());
      auto exchange = all_to_all(rows, in);
      return std::make_unique<SumOfRows>(std::move(exchange), std::move(rows), out);
    }
    at::Tensor flat_out = out.view(-1);
    at::Tensor flat_in = in.view(-1);
    return start(in, [&](c10d::Backend& backend) { return scatter_flat(backend, flat_out, flat_in); });
  }

  std::unique_ptr<Transfer> all_to_all(at::Tensor& out, const at::Tensor& in) override {
    if (is_near(in)) return near_->all_to_all(out, in);
    std::vector<at::Tensor> to = out.view({size(), -1}).unbind(0);
    std::vector<at::Tensor> from = in.view({size(), -1}).unbind(0);
    c10d::AllToAllOptions options;
    options.timeout = timeout();
    return start(in, [&](c10d::Backend& backend) { return backend.alltoall(to, from, options); });
  }

  std::unique_ptr<Transfer> send(const at::Tensor& x, int to, int tag) override {
    std::vector<at::Tensor> tensors = {x};
    return start(x, [&](c10d::Backend& backend) { return backend.send(tensors, to, tag); });
  }

  std::unique_ptr<Transfer> receive(at::Tensor& x, int from, int tag) override {
    std::vector<at::Tensor> tensors = {x};
    return start(x, [&](c10d::Backend& backend) { return backend.recv(tensors, from, tag); });
  }

  std::unique_ptr<Transfer> barrier() override {
    c10d::BarrierOptions options;
    options.timeout = timeout();
    const std::lock_guard lock(*calls_);
    return track(gloo_->barrier(options));
  }

  std::shared_ptr<Wires> split(const std::string& label, int rank, int size) override {
    const auto& store = dynamic_cast<const C10dStore&>(*store_).get();
    WiresOptions options = options_;
    options.rank = rank;
    options.size = size;
    return make_wires(std::make_shared<C10dStore>(c10::make_intrusive<c10d::PrefixStore>(label, store)),
                      options);
  }

 private:
  /// `x` is what a collective holds whole, by which all ranks decide alike.
  bool is_near(const at::Tensor& x, int64_t factor = 1) const {
    return near_ && x.is_cpu() && static_cast<int64_t>(x.nbytes()) >= factor * options_.near_bytes;
  }

  template <class Call>
  std::unique_ptr<Transfer> start(const at::Tensor& x, Call&& call) {
    const std::lock_guard lock(*calls_);
    return track(call(x.is_cuda() ? *nccl_ : *gloo_));
  }

  std::unique_ptr<Transfer> track(c10::intrusive_ptr<c10d::Work> work) {
    std::erase_if(under_way_, [](const auto& other) { return !other->is_unfinished(); });
    under_way_.push_back(std::make_shared<Tracked>(std::move(work)));
    return std::make_unique<C10dTransfer>(under_way_.back(), timeout());
  }

  bool has_unfinished() const {
    return (near_ && near_->is_busy()) ||
           std::ranges::any_of(under_way_, [](const auto& work) { return work->is_unfinished(); });
  }

  std::shared_ptr<KeyStore> store_;
  BackendPtr gloo_;
  BackendPtr nccl_;
  /// Held while the Gloo backend is called: near memory's thread does so, too.
  std::shared_ptr<std::mutex> calls_ = std::make_shared<std::mutex>();
  std::unique_ptr<NearCollectives> near_;
  WiresOptions options_;
  std::vector<std::shared_ptr<Tracked>> under_way_;
};

/// Gloo's writev() raises SIGPIPE when the peer has gone: the process would end without a word instead of
/// with a CommError. What the program itself chose for that signal stays.
void ignore_broken_pipes() {
  struct sigaction chosen {};
  if (::sigaction(SIGPIPE, nullptr, &chosen) == 0 && chosen.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
}

BackendPtr make_gloo(const StorePtr& store, const WiresOptions& options) {
  ignore_broken_pipes();
  silence_c10d();
  auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.size, gloo);
}

}  // namespace

std::shared_ptr<Wires> make_wires(std::shared_ptr<KeyStore> store, const WiresOptions& options) {
  const auto* c10d_store = dynamic_cast<const C10dStore*>(store.get());
  if (c10d_store == nullptr) throw StateError("make_wires: the store is not one of key_store.h");
  const auto part = [&](const char* name) {
    return c10::make_intrusive<c10d::PrefixStore>(name, c10d_store->get());
  };
  try {
    c10d_store->get()->setTimeout(options.timeout);
    BackendPtr gloo = make_gloo(part("gloo"), options);
    BackendPtr nccl;
    if (options.cuda_device >= 0)
      nccl = make_nccl(part("nccl"), options.rank, options.size, options.cuda_device, options.timeout);
    return std::make_shared<C10dWires>(std::move(store), std::move(gloo), std::move(nccl), options);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError(text("rank ", options.rank, " of ", options.size, " could not connect to its peers from ",
                         options.address, ": ", transport_reason(error),
                         ". Another rank has ended (its own message tells why), or the machines of all ranks "
                         "do not reach this address; GLOO_SOCKET_IFNAME names another network interface"));
  }
}

}  // namespace duoka::comm
