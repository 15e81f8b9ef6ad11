// SPDX-License-Identifier: Apache-2.0
// Collectives between CPU ranks, against c10d's own over Gloo, which is what PyTorch's programs call.
#include "duoka/comm/collectives.h"

#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "measured.h"

namespace duoka::bench {
namespace {

using Gloo = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

constexpr const char* loopback = "127.0.0.1";

/// Among the ranks of `group`, on connections of its own.
Gloo connect_gloo(const comm::Group& group) {
  c10d::TCPStoreOptions store_options;
  store_options.port = 0;
  store_options.isServer = group.rank() == 0;
  store_options.waitWorkers = false;
  c10::intrusive_ptr<c10d::TCPStore> store;
  if (group.rank() == 0) store = c10::make_intrusive<c10d::TCPStore>(loopback, store_options);
  std::string port = store ? std::to_string(store->getPort()) : "";
  comm::broadcast_text(port, 0, group);
  store_options.port = static_cast<uint16_t>(std::stoi(port));
  if (!store) store = c10::make_intrusive<c10d::TCPStore>(loopback, store_options);
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::minutes(5));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(loopback));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, group.rank(), group.size(), options);
}

struct Buffers {
  at::Tensor whole, other, part;
};

using Collective = std::function<void(Buffers& buffers)>;

void add_collective(const std::string& name, int64_t kib, const comm::Group& group, const Collective& ours,
                    const Collective& theirs) {
  const double bytes = static_cast<double>(kib) * 1024;
  const auto make = [=] {
    const auto numel = static_cast<int64_t>(bytes) / static_cast<int64_t>(sizeof(float)) / group.size();
    auto buffers = std::make_shared<Buffers>(
        Buffers{at::zeros({group.size(), numel}), at::zeros({group.size(), numel}), at::zeros({numel})});
    return Step{.body = [=] { ours(*buffers); },
                .prepare = [=] { comm::barrier(group); },
                .reference = [=] { theirs(*buffers); }};
  };
  add({.name = name + "/" + (kib < 1024 ? std::to_string(kib) + " KiB" : std::to_string(kib / 1024) + " MiB"),
       .make = make,
       .bytes = bytes,
       .iterations = kib >= 16 * 1024 ? 20 : 200});
}

}  // namespace

void add_collectives(const comm::Group& group) {
  const Gloo gloo = connect_gloo(group);
  for (const int64_t kib : {16, 256, 1024, 4096, 16384, 65536}) {
    add_collective(
        "all_reduce", kib, group, [=](Buffers& b) { comm::all_reduce(b.whole, comm::Op::sum, group); },
        [=](Buffers& b) {
          std::vector<at::Tensor> tensors = {b.whole};
          gloo->allreduce(tensors)->wait();
        });
    add_collective(
        "reduce_scatter", kib, group, [=](Buffers& b) { comm::reduce_scatter_into(b.part, b.whole, group); },
        [=](Buffers& b) {
          at::Tensor all = b.whole.view(-1);
          gloo->reduce_scatter_single(b.part, all)->wait();
        });
    add_collective(
        "all_gather", kib, group, [=](Buffers& b) { comm::all_gather_into(b.whole, b.part, group); },
        [=](Buffers& b) {
          at::Tensor all = b.whole.view(-1);
          gloo->all_gather_single(all, b.part)->wait();
        });
    add_collective(
        "all_to_all", kib, group, [=](Buffers& b) { comm::all_to_all_into(b.other, b.whole, group); },
        [=](Buffers& b) {
          std::vector<at::Tensor> to = b.other.unbind(0), from = b.whole.unbind(0);
          gloo->alltoall(to, from)->wait();
        });
  }
}

}  // namespace duoka::bench
