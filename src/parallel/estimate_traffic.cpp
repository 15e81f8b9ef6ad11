// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "duoka/core/error.h"
#include "parallel/estimate_parts.h"
#include "parallel/make_slots.h"
#include "parallel/row_publisher.h"
#include "parallel/walk.h"

namespace duoka::parallel {

namespace {

using comm::Axis;
using comm::Operation;

constexpr std::array all_axes = {Axis::pipeline, Axis::data, Axis::shard, Axis::context, Axis::tensor};

/// The ranks that share a collective.
struct Ranks {
  std::string axis;
  int size = 1;
  int span = 1;  ///< See TrafficEstimate.
};

/// As Mesh::group() would make it.
Ranks ranks_of(const comm::MeshShape& mesh, const std::vector<Axis>& axes) {
  Ranks ranks;
  int block = mesh.num_ranks();  // neighbouring ranks that differ in this axis and those inside it
  for (const Axis axis : all_axes) {
    const int size = mesh.size(axis);
    if (size > 1 && std::ranges::find(axes, axis) != axes.end()) {
      ranks.axis += (ranks.axis.empty() ? "" : "+") + std::string(axis_name(axis));
      ranks.size *= size;
      ranks.span = std::max(ranks.span, block);
    }
    block /= size;
  }
  return ranks;
}

/// Collects calls; a group of one sends nothing, nor does a call without bytes.
class Calls {
 public:
  void add(const char* what, const Ranks& ranks, Operation operation, int64_t calls, int64_t bytes) {
    if (ranks.size == 1 || calls == 0 || bytes == 0) return;
    for (TrafficEstimate& known : all_)
      if (known.what == what && known.axis == ranks.axis && known.operation == operation) {
        known.calls += calls;
        known.bytes += calls * bytes;
        return;
      }
    all_.push_back({what, ranks.axis, ranks.size, ranks.span, operation, calls, calls * bytes});
  }
  std::vector<TrafficEstimate> take() { return std::move(all_); }

 private:
  std::vector<TrafficEstimate> all_;
};

int64_t round_up(int64_t number, int64_t multiple) { return (number + multiple - 1) / multiple * multiple; }

class Traffic {
 public:
  Traffic(const Question& question, Outline& outline)
      : question_(question), outline_(outline), num_micro_(question.workload.accumulation) {}

  std::vector<TrafficEstimate> count() {
    add_gradients();
    if (question_.shard_ranks() > 1) question_.has_parameter_shards() ? add_gathers() : add_publishing();
    if (question_.plan.tensor > 1) add_tensor();
    if (question_.plan.context > 1) add_context();
    if (question_.plan.pipeline > 1) add_pipeline();
    return calls_.take();
  }

 private:
  Ranks shard() const { return ranks_of(question_.mesh, {Axis::shard, Axis::context}); }

  /// The ranks that hold the same rows of a bucket's parameters; see Layout.
  Ranks replicas(const Parameter& parameter) const {
    const comm::MeshShape& mesh = question_.mesh;
    std::vector<Axis> axes = {Axis::data};
    if (question_.plan.zero_stage == 0) axes.push_back(Axis::context);
    if (outline_.groups.is_tied(parameter)) {
      if (outline_.place > 0 && outline_.place + 1 < mesh.pipeline) return {};
      Ranks ranks = ranks_of(mesh, axes);
      return {"tied weights", 2 * ranks.size, mesh.num_ranks()};
    }
    if (parameter.is_whole()) axes.push_back(Axis::tensor);
    return ranks_of(mesh, axes);
  }

  /// Over all holders of the same numbers.
  void add_sum(const Ranks& ranks, int64_t numbers) {
    const int64_t bytes = question_.gradient_bytes;
    if (!question_.workload.engine.exact)
      return calls_.add("gradients", ranks, Operation::all_reduce, 1, numbers * bytes);
    const int64_t padded = round_up(numbers, ranks.size);
    calls_.add("gradients", ranks, Operation::all_to_all, 1, padded * bytes);
    calls_.add("gradients", ranks, Operation::all_gather, 1, padded / ranks.size * bytes);
  }

  void add_gradients() {
    const int n = question_.shard_ranks();
    const EngineOptions& engine = question_.workload.engine;
    for (const GradientBucket& bucket : outline_.buckets(engine.bucket_bytes)) {
      const Ranks copies = replicas(*bucket.parameters.front());
      int64_t share = 0, whole = 0;
      for (const Parameter* parameter : bucket.parameters) {
        share += rows_share(*parameter, n);
        whole += parameter->numel();
      }
      if (n > 1) {
        const bool each = question_.plan.zero_stage >= 2 && !engine.exact;
        calls_.add("gradients", shard(), engine.exact ? Operation::all_to_all : Operation::reduce_scatter,
                   each ? num_micro_ : 1, share * n * question_.gradient_bytes);
      }
      add_sum(copies, n > 1 ? share : whole);
    }
  }

  /// ZeRO-3: a set is fetched before each stage that uses it, and on the way back again.
  void add_gathers() {
    const int64_t objective = outline_.num_stages();
    for (const FetchedSet& set : fetched_sets(outline_.chain(), question_.shard_ranks()))
      for (const int64_t stage : set.stages) {
        const int64_t fetches = stage == objective || stage < outline_.lowest_stage ? 1 : 2;
        calls_.add("weights", shard(), Operation::all_gather, fetches * num_micro_,
                   set.share * question_.value_bytes);
      }
  }

  /// ZeRO-1 and 2: what the optimizer changed, a few tensors a call; see RowPublisher.
  void add_publishing() {
    int64_t share = 0, bytes = 0;
    const auto send = [&] {
      calls_.add("weights", shard(), Operation::all_gather, 1, share * question_.value_bytes);
      share = bytes = 0;
    };
    for (const Parameter* parameter : trainable_of(outline_.chain())) {
      share += rows_share(*parameter, question_.shard_ranks());
      bytes += parameter->numel() * question_.value_bytes;
      if (bytes >= RowPublisher::bucket_bytes) send();
    }
    send();
  }

  void gather_tokens(int64_t calls) {
    calls_.add("tensor", tensor(), Operation::all_gather, calls * num_micro_,
               row_bytes() * question_.own_tokens);
  }
  void scatter_tokens(int64_t calls) {
    calls_.add("tensor", tensor(), Operation::reduce_scatter, calls * num_micro_,
               row_bytes() * question_.own_tokens * question_.plan.tensor);
  }
  Ranks tensor() const { return ranks_of(question_.mesh, {Axis::tensor}); }
  int64_t row_bytes() const { return question_.workload.model.hidden_size * question_.value_bytes; }

  void add_tensor() {
    const bool again = question_.workload.engine.recompute;
    for (int64_t stage = 0; stage < outline_.num_stages(); ++stage) {
      const bool goes_back = stage >= outline_.lowest_stage;
      const int64_t forwards = goes_back && again ? 2 : 1;
      if (model::Block* block = outline_.block_at(stage)) {
        gather_tokens(2 * forwards);  // attention and MLP
        scatter_tokens(2 * forwards);
        if (goes_back) add_block_backward(*block);
      } else {
        scatter_tokens(forwards);
        if (goes_back && outline_.decoder.embedding().weight().is_trainable) gather_tokens(1);
      }
    }
    if (outline_.chain().objective != nullptr) add_head();
  }

  /// Gradients of both halves come and go, and their inputs are gathered again where a weight's gradient
  /// wants them.
  void add_block_backward(model::Block& block) {
    const auto linears = block.linears();
    const auto needs_input = [](const model::Linear* linear) { return linear->needs_input(); };
    gather_tokens(2 + std::any_of(linears.begin(), linears.begin() + 3, needs_input) +
                  std::any_of(linears.begin() + 4, linears.begin() + 6, needs_input));
    scatter_tokens(2);
  }

  /// The largest logit and two sums for each row, a chunk of rows at a time.
  void add_head() {
    calls_.add("tensor", tensor(), Operation::all_gather, num_micro_, row_bytes() * question_.own_trained);
    calls_.add("tensor", tensor(), Operation::reduce_scatter, num_micro_,
               row_bytes() * question_.own_trained * question_.plan.tensor);
    const int64_t rows = outline_.decoder.head().rows_per_chunk(), tokens = question_.trained;
    add_chunk_sums(tokens / rows, rows);
    if (tokens % rows > 0) add_chunk_sums(1, tokens % rows);
  }

  void add_chunk_sums(int64_t num_chunks, int64_t rows) {
    const int64_t bytes = rows * question_.gradient_bytes;
    calls_.add("tensor", tensor(), Operation::all_reduce, num_micro_ * num_chunks, bytes);
    calls_.add("tensor", tensor(), Operation::all_reduce, num_micro_ * num_chunks, 2 * bytes);
  }

  /// Keys and values go round the ring, in backward again, and their gradients with them.
  void add_context() {
    const Ranks ring = ranks_of(question_.mesh, {Axis::context});
    for (int64_t stage = 0; stage < outline_.num_stages(); ++stage) {
      model::Block* block = outline_.block_at(stage);
      if (block == nullptr) continue;
      const bool goes_back = stage >= outline_.lowest_stage;
      const int64_t numbers = 2 * question_.tokens * block->linears()[1]->outputs().count,
                    shifts = ring.size - 1;
      const int64_t rounds = goes_back ? (question_.workload.engine.recompute ? 3 : 2) : 1;
      calls_.add("context", ring, Operation::send, rounds * shifts * num_micro_,
                 numbers * question_.value_bytes);
      if (goes_back)
        calls_.add("context", ring, Operation::send, shifts * num_micro_, numbers * question_.gradient_bytes);
    }
  }

  /// A tensor to the next stage, and its gradient to the one before.
  void add_pipeline() {
    const Ranks line = ranks_of(question_.mesh, {Axis::pipeline});
    const int num_pieces = question_.plan.pipeline * question_.plan.chunks;
    for (int piece = outline_.place; piece < num_pieces; piece += question_.plan.pipeline)
      for (const bool sends : {piece + 1 < num_pieces, piece > outline_.lowest_piece})
        if (sends)
          calls_.add("pipeline", line, Operation::send, num_micro_, row_bytes() * question_.own_tokens);
  }

  const Question& question_;
  Outline& outline_;
  int64_t num_micro_;
  Calls calls_;
};

}  // namespace

double TrafficEstimate::wire_bytes() const {
  const double n = num_ranks, handed_in = static_cast<double>(bytes);
  switch (operation) {
    case Operation::all_reduce:
      return 2 * (n - 1) / n * handed_in;
    case Operation::reduce_scatter:
    case Operation::all_to_all:
      return (n - 1) / n * handed_in;
    case Operation::all_gather:
      return (n - 1) * handed_in;
    default:
      return handed_in;
  }
}

std::vector<TrafficEstimate> traffic_of(const Question& question, Outline& outline) {
  return Traffic(question, outline).count();
}

}  // namespace duoka::parallel
