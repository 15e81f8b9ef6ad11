// SPDX-License-Identifier: Apache-2.0
// The one file that sees c10d (with nccl.cpp, which only makes the NCCL backend).
#include "comm/c10d_backend.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/nccl.h"
#include "comm/work.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

using std::chrono::milliseconds;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// How much longer than the transport's own time-out a wait may take: the transport's message is the better
/// one.
constexpr milliseconds timeout_margin{2000};

/// Gives trouble with the store the words of a rank that has lost it.
template <class Body>
auto guarded(Body&& body) {
  try {
    return body();
  } catch (const std::exception&) {
    throw CommError("lost the connection to rank 0 while the ranks were joining; its own message tells why");
  }
}

class C10dStore final : public KeyStore {
 public:
  explicit C10dStore(StorePtr store) : store_(std::move(store)) {}

  std::string set_once(const std::string& key, const std::string& value) override {
    return guarded([&] { return store_->compareSet(key, "", value); });
  }
  std::optional<std::string> find(const std::string& key) override {
    return guarded([&]() -> std::optional<std::string> {
      if (!store_->check({key})) return std::nullopt;
      return store_->get_to_str(key);
    });
  }
  int64_t add(const std::string& key, int64_t count) override {
    return guarded([&] { return store_->add(key, count); });
  }
  const StorePtr& get() const { return store_; }

 private:
  StorePtr store_;
};

/// c10d writes an error of its own to stderr before it throws, and warns of peers whose address has no name;
/// the culprit's error is to be the only one there. Who asks for c10d's messages gets them.
void silence_c10d() {
  // Once a process, since ranks may be its threads.
  static const bool once = [] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
    return true;
  }();
  (void)once;
}

/// A TCPStore's first exchange of words has no time-out of its own: with a port of some other program it
/// would wait for ever. So that happens on another thread, which is left behind in this case.
StorePtr open_tcp_store(const std::string& host, const c10d::TCPStoreOptions& options) {
  silence_c10d();
  auto opened = std::make_shared<std::promise<StorePtr>>();
  auto store = opened->get_future();
  std::thread([opened, host, options] {
    try {
      opened->set_value(c10::make_intrusive<c10d::TCPStore>(host, options));
    } catch (...) {
      opened->set_exception(std::current_exception());
    }
  }).detach();
  try {
    if (store.wait_for(options.timeout) == std::future_status::ready) return store.get();
  } catch (const std::exception&) {
    // c10d's words tell of bytes and frames; those below hold for all of them.
  }
  throw CommError(text("what listens at ", host, ":", options.port, " does not answer as rank 0 of this job;",
                       " correct MASTER_ADDR and MASTER_PORT"));
}

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
        options_(options) {}

  ~C10dWires() override {
    if (!has_unfinished()) return;
    // c10d's destructors wait for what is under way, up to the time-out when a peer is stuck. A failing rank
    // has to go now, so they wait on a thread of their own; the wires close as soon as they can.
    std::thread([store = std::move(store_), gloo = std::move(gloo_), nccl = std::move(nccl_)]() mutable {
      gloo.reset();
      nccl.reset();
    }).detach();
  }

  std::string transport() const override { return nccl_ ? "gloo + nccl" : "gloo"; }

  bool reaches(const at::Device& device) const override {
    return device.is_cpu() || (nccl_ && device.is_cuda() && device.index() == options_.cuda_device);
  }

  std::unique_ptr<Transfer> all_reduce(at::Tensor& x, Op op) override {
    std::vector<at::Tensor> tensors = {x};
    c10d::AllreduceOptions options;
    options.reduceOp = reduce_op(op);
    options.timeout = timeout();
    return track(backend(x).allreduce(tensors, options));
  }

  std::unique_ptr<Transfer> broadcast(at::Tensor& x, int root) override {
    std::vector<at::Tensor> tensors = {x};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    options.timeout = timeout();
    return track(backend(x).broadcast(tensors, options));
  }

  std::unique_ptr<Transfer> all_gather(at::Tensor& out, const at::Tensor& in) override {
    at::Tensor flat_out = out.view(-1);
    at::Tensor flat_in = in.view(-1);
    return track(gather_flat(backend(in), flat_out, flat_in));
  }

  std::unique_ptr<Transfer> reduce_scatter(at::Tensor& out, const at::Tensor& in) override {
    // c10d's own over Gloo is an all-reduce of a copy: twice the bytes.
    if (in.is_cpu()) {
      at::Tensor rows = at::empty({size(), out.numel()}, in.options());
      auto exchange = all_to_all(rows, in);
      return std::make_unique<SumOfRows>(std::move(exchange), std::move(rows), out);
    }
    at::Tensor flat_out = out.view(-1);
    at::Tensor flat_in = in.view(-1);
    return track(scatter_flat(backend(in), flat_out, flat_in));
  }

  std::unique_ptr<Transfer> all_to_all(at::Tensor& out, const at::Tensor& in) override {
    std::vector<at::Tensor> to = out.view({size(), -1}).unbind(0);
    std::vector<at::Tensor> from = in.view({size(), -1}).unbind(0);
    c10d::AllToAllOptions options;
    options.timeout = timeout();
    return track(backend(in).alltoall(to, from, options));
  }

  std::unique_ptr<Transfer> send(const at::Tensor& x, int to, int tag) override {
    std::vector<at::Tensor> tensors = {x};
    return track(backend(x).send(tensors, to, tag));
  }

  std::unique_ptr<Transfer> receive(at::Tensor& x, int from, int tag) override {
    std::vector<at::Tensor> tensors = {x};
    return track(backend(x).recv(tensors, from, tag));
  }

  std::unique_ptr<Transfer> barrier() override {
    c10d::BarrierOptions options;
    options.timeout = timeout();
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
  c10d::Backend& backend(const at::Tensor& x) const { return x.is_cuda() ? *nccl_ : *gloo_; }

  std::unique_ptr<Transfer> track(c10::intrusive_ptr<c10d::Work> work) {
    std::erase_if(under_way_, [](const auto& other) { return !other->is_unfinished(); });
    under_way_.push_back(std::make_shared<Tracked>(std::move(work)));
    return std::make_unique<C10dTransfer>(under_way_.back(), timeout());
  }

  bool has_unfinished() const {
    return std::ranges::any_of(under_way_, [](const auto& work) { return work->is_unfinished(); });
  }

  std::shared_ptr<KeyStore> store_;
  BackendPtr gloo_;
  BackendPtr nccl_;
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

std::shared_ptr<KeyStore> serve_store(int listen_fd, const std::string& address, int port,
                                      milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = true;
  options.waitWorkers = false;  // the join table waits, and can say for whom
  options.timeout = timeout;
  options.masterListenFd = listen_fd;
  return std::make_shared<C10dStore>(open_tcp_store(address, options));
}

std::shared_ptr<KeyStore> reach_store(const std::string& host, int port, const std::string& prefix,
                                      milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = timeout;
  StorePtr store = open_tcp_store(host, options);
  if (!prefix.empty()) store = c10::make_intrusive<c10d::PrefixStore>(prefix, store);
  return std::make_shared<C10dStore>(std::move(store));
}

std::shared_ptr<KeyStore> store_in_process() {
  return std::make_shared<C10dStore>(c10::make_intrusive<c10d::HashStore>());
}

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
