// SPDX-License-Identifier: Apache-2.0
#include "comm/c10d_near.h"

#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "comm/near_memory.h"

namespace duoka::comm {

namespace {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;
using std::chrono::milliseconds;

template <class T>
at::Tensor bytes_for(int64_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  return at::empty({count, static_cast<int64_t>(sizeof(T))}, at::kByte);
}

/// The rows of `bytes` as what they are.
template <class T>
std::vector<T> values_of(const at::Tensor& bytes) {
  std::vector<T> values(static_cast<size_t>(bytes.size(0)));
  std::memcpy(values.data(), bytes.const_data_ptr(), bytes.nbytes());
  return values;
}

/// Every rank sends its post to every other.
class C10dMeeting final : public NearMeeting {
 public:
  C10dMeeting(BackendPtr gloo, std::shared_ptr<std::mutex> calls)
      : gloo_(std::move(gloo)),
        calls_(std::move(calls)),
        own_(bytes_for<NearPost>(1)),
        all_(bytes_for<NearPost>(gloo_->getSize())) {}

  std::vector<NearPost> meet(const NearPost& own, milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    std::memcpy(own_.mutable_data_ptr(), &own, sizeof own);
    all_[gloo_->getRank()].copy_(own_[0]);
    for (const auto& work : start()) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
      work->wait(std::max(left, milliseconds(1)));
    }
    return values_of<NearPost>(all_);
  }

 private:
  Works start() {
    const std::lock_guard lock(*calls_);
    Works works;
    // Receiving first: a message that is waited for takes one way less.
    for (int peer = 0; peer < gloo_->getSize(); ++peer) {
      if (peer == gloo_->getRank()) continue;
      std::vector<at::Tensor> row = {all_[peer]};
      works.push_back(gloo_->recv(row, peer, near_tag));
    }
    for (int peer = 0; peer < gloo_->getSize(); ++peer) {
      if (peer == gloo_->getRank()) continue;
      std::vector<at::Tensor> row = {own_};
      works.push_back(gloo_->send(row, peer, near_tag));
    }
    return works;
  }

  BackendPtr gloo_;
  std::shared_ptr<std::mutex> calls_;
  at::Tensor own_, all_;
};

struct Offer {
  NearIdentity identity;
  int64_t near_bytes = -1;
};

std::vector<Offer> gather(const Offer& own, c10d::Backend& gloo) {
  std::vector<at::Tensor> in = {bytes_for<Offer>(1)};
  std::memcpy(in[0].mutable_data_ptr(), &own, sizeof own);
  const at::Tensor all = bytes_for<Offer>(gloo.getSize());
  std::vector<std::vector<at::Tensor>> out = {all.split(1)};
  gloo.allgather(out, in)->wait();
  return values_of<Offer>(all);
}

bool is_true_on_all(bool word, c10d::Backend& gloo) {
  std::vector<at::Tensor> words = {at::full({1}, word ? 1 : 0, at::kLong)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MIN;
  gloo.allreduce(words, options)->wait();
  return words[0].item<int64_t>() == 1;
}

bool reaches(NearMemory& memory, const std::vector<Offer>& offers) {
  std::vector<NearIdentity> ranks;
  for (const Offer& offer : offers) {
    if (offer.near_bytes < 0 || offer.near_bytes != offers.front().near_bytes) return false;
    ranks.push_back(offer.identity);
  }
  return memory.reaches(ranks);
}

}  // namespace

std::unique_ptr<NearCollectives> connect_near(BackendPtr gloo, std::shared_ptr<std::mutex> calls,
                                              const WiresOptions& options) {
  auto memory = std::make_unique<NearMemory>();
  const auto offers = gather({memory->identity(), options.near_bytes}, *gloo);
  // All have it or none; and nobody's nonce goes before all have read it.
  if (!is_true_on_all(reaches(*memory, offers), *gloo)) return nullptr;
  return std::make_unique<NearCollectives>(options.rank, options.size, options.timeout, std::move(memory),
                                           std::make_unique<C10dMeeting>(std::move(gloo), std::move(calls)));
}

}  // namespace duoka::comm
