// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/comm/collectives.h"
#include "duoka/comm/group.h"
#include "duoka/parallel/pipeline_schedule.h"
#include "parallel/trace.h"

namespace duoka::parallel {

/// Brings activations to the next stage and gradients to the one before, along the lists of a schedule:
///
///   exchange.begin(lists, tensors);
///   for (const auto& action : lists[rank]) {
///     at::Tensor x = exchange.input(action);   // not for backward_weight
///     …
///     exchange.output(action, result);
///   }
///   exchange.finish();
///
/// Receives are posted ahead of their actions, so that tensors travel while this rank computes. Sends never
/// wait where the ranks keep to the pace of the plan (all stages alike). A rank that runs ahead of the one it
/// sends to waits for it, so that few sent tensors are alive; as it waits for nothing that the plan has
/// later, nobody waits for ever.
///
/// On one rank chunks hand over to each other without wires. Calls are collective over the group in the sense
/// of the lists. Throws CommError when a peer fails; the exchange is of no use then. Not thread-safe.
class PipelineExchange final {
 public:
  /// Receives under way beside the one that is waited for: the next one travels while this rank computes, and
  /// one more where two follow each other closely.
  static constexpr size_t receives_ahead = 2;
  /// How much later than the plan, in actions, a receiver may be before the sender waits for it.
  static constexpr double patience = 2;

  /// Collective over `group`, the ranks of the pipeline axis in order; makes wires for each direction and
  /// sends a word along each (NCCL connects two ranks when they first talk, and waits for it). `device`: of
  /// the tensors to come.
  /// lowest_stage: of the pipeline; no gradient goes to the stages below.
  PipelineExchange(const comm::Group& group, int num_chunks, const at::Device& device = at::kCPU,
                   int lowest_stage = 0);

  /// What travels: [rows[micro], width], the same on each rank. Nothing does where there are no rows.
  struct Tensors {
    std::vector<int64_t> rows;
    int64_t width = 0;
    at::TensorOptions options;  ///< Dtype and device.
  };

  /// Begins an update, or an evaluation (only_forwards()). `lists` are the same on each rank.
  void begin(PipelineLists lists, Tensors tensors);
  /// What `action`, the next of this rank's list, starts from: activations of the stage before, or the
  /// gradient from the stage after; undefined in the first stage's forward and the last one's backward. Waits
  /// for it.
  at::Tensor input(const PipelineAction& action);
  /// Sends what the action of the last input() made to where it is wanted, if it is. Returns at once; `x` is
  /// not to be changed afterwards.
  void output(const PipelineAction& action, const at::Tensor& x);
  /// Waits until all that was sent has arrived. Ends the update.
  void finish();

  /// Where transfers are noted from now on, with what they are about; null: nowhere.
  void set_trace(TraceFile* trace) { trace_ = trace; }

  /// Sent tensors that are kept alive.
  size_t num_held() const { return held_.size(); }

 private:
  /// One tensor on its way between two stages.
  struct Message {
    int from = 0;  // stage
    int to = 0;
    int micro = 0;
    auto operator<=>(const Message&) const = default;
  };
  struct Receive {
    Message message;
    at::Tensor x;
    comm::Pending pending;
  };
  struct Held {
    Message message;
    double wanted = 0;  // when its receiver wants it, by the plan
    at::Tensor x;
    comm::Pending pending;
  };

  void connect(const at::Device& device);
  std::optional<Message> message_to(const PipelineAction& action, int rank) const;
  std::optional<Message> message_from(const PipelineAction& action) const;
  bool is_sent(const Message& message) const;
  int rank_of(int stage) const { return stage % group_.size(); }
  const comm::Group& wires(const Message& message) const;
  int tag(const Message& message) const { return message.micro * num_stages_ + message.to; }
  TraceLabels labels(const Message& message) const { return {.micro = message.micro, .stage = message.to}; }
  void wait_until_sent(Held& held);
  void post_receives();
  void release_sends(double now);
  at::Tensor take_local(const Message& message);

  comm::Group group_;
  int num_stages_;
  int lowest_stage_;
  /// By direction, and whether it is the way between the last rank and the first. Two ranks are neighbours on
  /// both ways, and NCCL, which has no tags, would take one's tensors for the other's.
  std::array<std::array<comm::Group, 2>, 2> wires_;

  PipelineLists lists_;
  Tensors tensors_;
  std::vector<double> starts_;        // of this rank's actions, by the plan
  std::map<Message, double> wanted_;  // by the plan, for what this rank sends
  size_t next_ = 0;                   // place in this rank's list
  std::deque<Message> expected_;      // to be posted
  std::deque<Receive> posted_;
  std::vector<Held> held_;
  std::map<Message, at::Tensor> local_;
  TraceFile* trace_ = nullptr;
};

}  // namespace duoka::parallel
