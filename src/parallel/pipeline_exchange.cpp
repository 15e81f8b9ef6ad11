// SPDX-License-Identifier: Apache-2.0
#include "parallel/pipeline_exchange.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "duoka/comm/duplicate.h"
#include "duoka/core/error.h"
#include "duoka/core/host_allocator.h"
#include "duoka/core/text.h"

namespace duoka::parallel {

namespace {

using Kind = PipelineAction::Kind;

StageTimes one_step_each(int num_stages) {
  const std::vector<double> ones(static_cast<size_t>(num_stages), 1.0);
  return {ones, ones, ones};
}

std::string words_of(const PipelineAction& action) {
  return text(action_name(action.kind), " of micro-batch ", action.micro, ", chunk ", action.chunk);
}

}  // namespace

PipelineExchange::PipelineExchange(const comm::Group& group, int num_chunks, const at::Device& device,
                                   int lowest_stage)
    : group_(group), num_stages_(group.size() * num_chunks), lowest_stage_(lowest_stage) {
  if (group.size() == 1) return;
  wires_[0][0] = comm::duplicate(group, "pipeline forward");
  wires_[1][0] = comm::duplicate(group, "pipeline backward");
  if (num_chunks > 1) {
    wires_[0][1] = comm::duplicate(group, "pipeline forward, last to first");
    wires_[1][1] = comm::duplicate(group, "pipeline backward, first to last");
  }
  connect(device);
}

/// Way after way, the same on all ranks, so that nobody waits for one who waits for another.
void PipelineExchange::connect(const at::Device& device) {
  at::Tensor word = at::zeros({1}, at::TensorOptions(at::kFloat).device(device));
  const auto send_word = [&](int from, int to) {
    const Message message{from, to, 0};
    if (group_.rank() == rank_of(from)) comm::start_send(word, rank_of(to), 0, wires(message)).wait();
    if (group_.rank() == rank_of(to)) comm::start_receive(word, rank_of(from), 0, wires(message)).wait();
  };
  const int num_ways = num_stages_ > group_.size() ? group_.size() : group_.size() - 1;
  for (int stage = 0; stage < num_ways; ++stage) {
    send_word(stage, stage + 1);
    send_word(stage + 1, stage);
  }
}

const comm::Group& PipelineExchange::wires(const Message& message) const {
  const int p = group_.size();
  return wires_[message.to < message.from ? 1 : 0][message.from / p == message.to / p ? 0 : 1];
}

std::optional<PipelineExchange::Message> PipelineExchange::message_to(const PipelineAction& action,
                                                                      int rank) const {
  if (action.kind == Kind::backward_weight) return std::nullopt;
  const int stage = action.chunk * group_.size() + rank;
  const int from = action.kind == Kind::forward ? stage - 1 : stage + 1;
  if (from < 0 || from >= num_stages_ || (from > stage && stage < lowest_stage_)) return std::nullopt;
  return Message{from, stage, action.micro};
}

std::optional<PipelineExchange::Message> PipelineExchange::message_from(const PipelineAction& action) const {
  if (action.kind == Kind::backward_weight) return std::nullopt;
  const int stage = action.chunk * group_.size() + group_.rank();
  const int to = action.kind == Kind::forward ? stage + 1 : stage - 1;
  if (to < 0 || to >= num_stages_ || (to < stage && to < lowest_stage_)) return std::nullopt;
  return Message{stage, to, action.micro};
}

bool PipelineExchange::is_sent(const Message& message) const {
  return group_.size() > 1 && tensors_.rows.at(static_cast<size_t>(message.micro)) > 0;
}

void PipelineExchange::begin(PipelineLists lists, Tensors tensors) {
  if (!held_.empty() || !posted_.empty() || !local_.empty())
    throw StateError("pipeline exchange: begin() before the update before was finished");
  if (static_cast<int>(lists.size()) != group_.size())
    throw StateError(text("pipeline exchange: lists of ", lists.size(), " ranks on ", group_.size()));
  PipelineTimeline plan = simulate(lists, one_step_each(num_stages_));
  lists_ = std::move(lists);
  tensors_ = std::move(tensors);
  next_ = 0;
  const int own = group_.rank();
  wanted_.clear();
  for (int rank = 0; rank < group_.size(); ++rank) {
    const auto& list = lists_[static_cast<size_t>(rank)];
    for (size_t i = 0; i < list.size(); ++i) {
      const auto message = message_to(list[i], rank);
      if (!message || !is_sent(*message)) continue;
      if (rank_of(message->from) == own) wanted_[*message] = plan.starts[static_cast<size_t>(rank)][i];
      if (rank == own) expected_.push_back(*message);
    }
  }
  starts_ = std::move(plan.starts[static_cast<size_t>(own)]);
  post_receives();
}

void PipelineExchange::post_receives() {
  while (!expected_.empty() && posted_.size() < receives_ahead) {
    const Message message = expected_.front();
    expected_.pop_front();
    const bool is_forward = message.to > message.from;  // its receiver saves it
    const MemoryScope scope(is_forward ? MemoryClass::activations : MemoryClass::other);
    at::Tensor x =
        at::empty({tensors_.rows.at(static_cast<size_t>(message.micro)), tensors_.width}, tensors_.options);
    comm::Pending pending = comm::start_receive(x, rank_of(message.from), tag(message), wires(message));
    posted_.push_back({message, std::move(x), std::move(pending)});
  }
}

void PipelineExchange::wait_until_sent(Held& held) {
  const TransferLabels scope(trace_, labels(held.message));
  held.pending.wait();
}

/// Waits for what the plan says was wanted some time ago. The plan is one order of all ranks' actions that
/// works, so waits that agree with it cannot close a circle.
void PipelineExchange::release_sends(double now) {
  std::erase_if(held_, [&](Held& held) {
    if (held.wanted + patience > now) return false;
    wait_until_sent(held);
    return true;
  });
}

at::Tensor PipelineExchange::take_local(const Message& message) {
  auto node = local_.extract(message);
  if (node.empty())
    throw StateError(text("pipeline exchange: stage ", message.from,
                          " has not given its output for micro-batch ", message.micro));
  return std::move(node.mapped());
}

at::Tensor PipelineExchange::input(const PipelineAction& action) {
  const auto& list = lists_.at(static_cast<size_t>(group_.rank()));
  while (next_ < list.size() && list[next_].kind == Kind::backward_weight) ++next_;
  if (next_ == list.size() || list[next_] != action)
    throw StateError(text("pipeline exchange: ", words_of(action), " on rank ", group_.rank(),
                          " is not what its list has next"));
  release_sends(starts_[next_]);
  ++next_;
  const auto message = message_to(action, group_.rank());
  if (!message) return {};
  if (tensors_.rows.at(static_cast<size_t>(action.micro)) == 0)
    return at::empty({0, tensors_.width}, tensors_.options);
  if (group_.size() == 1) return take_local(*message);
  Receive receive = std::move(posted_.front());
  posted_.pop_front();
  post_receives();
  const TransferLabels scope(trace_, labels(receive.message));
  receive.pending.wait();
  return std::move(receive.x);
}

void PipelineExchange::output(const PipelineAction& action, const at::Tensor& x) {
  const auto message = message_from(action);
  if (!message) return;
  const int64_t rows = tensors_.rows.at(static_cast<size_t>(action.micro));
  if (!x.defined() || x.sizes() != at::IntArrayRef({rows, tensors_.width}))
    throw StateError(text("pipeline exchange: ", words_of(action), " on rank ", group_.rank(), " made ",
                          x.defined() ? text(x.sizes()) : "nothing", "; wanted [", rows, ", ", tensors_.width,
                          "]"));
  if (rows == 0) return;
  if (group_.size() == 1) {
    local_[*message] = x;
    return;
  }
  at::Tensor sent = x.contiguous();
  comm::Pending pending = comm::start_send(sent, rank_of(message->to), tag(*message), wires(*message));
  held_.push_back({*message, wanted_.at(*message), std::move(sent), std::move(pending)});
}

void PipelineExchange::finish() {
  const size_t left = expected_.size() + posted_.size() + local_.size();
  if (left > 0)
    throw StateError(text("pipeline exchange: finish() with ", left, " tensors that nobody took"));
  for (Held& held : held_) wait_until_sent(held);
  held_.clear();
}

}  // namespace duoka::parallel
