// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/context_axis.h"

#include "duoka/comm/collectives.h"

namespace duoka::parallel {

namespace {

class PendingExchange final : public model::ContextAxis::Exchange {
 public:
  PendingExchange(comm::Pending sent, comm::Pending received)
      : sent_(std::move(sent)), received_(std::move(received)) {}
  void finish() override {
    received_.wait();
    sent_.wait();
  }

 private:
  comm::Pending sent_, received_;
};

class GroupAxis final : public model::ContextAxis {
 public:
  explicit GroupAxis(comm::Group group) : group_(std::move(group)) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }

  // NCCL runs what one pair of ranks says to each other in the order it was asked for, so not all may begin
  // by sending: that would wait for ever.
  std::unique_ptr<Exchange> start_exchange(const at::Tensor& to_next,
                                           at::Tensor from_previous) const override {
    const auto tag = static_cast<int>(next_tag_++ % 65536);
    comm::Pending sent, received;
    if (rank() % 2 == 0) sent = send(to_next, tag);
    if (from_previous.numel() > 0)
      received = comm::start_receive(from_previous, (rank() + size() - 1) % size(), tag, group_);
    if (rank() % 2 != 0) sent = send(to_next, tag);
    return std::make_unique<PendingExchange>(std::move(sent), std::move(received));
  }

 private:
  comm::Pending send(const at::Tensor& x, int tag) const {
    if (x.numel() == 0) return {};
    return comm::start_send(x, (rank() + 1) % size(), tag, group_);
  }

  comm::Group group_;
  mutable unsigned next_tag_ = 0;  // every rank starts the same exchanges in the same order
};

}  // namespace

std::shared_ptr<const model::ContextAxis> make_context_axis(const comm::Group& group) {
  if (group.size() == 1) return model::solo_context_axis();
  return std::make_shared<const GroupAxis>(group);
}

}  // namespace duoka::parallel
