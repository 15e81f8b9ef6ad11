// SPDX-License-Identifier: Apache-2.0
// What the layers of model/ save for their backward, tensor by tensor in the order of their forward.
#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "duoka/core/error.h"
#include "parallel/estimate_parts.h"
#include "parallel/pipeline_exchange.h"

namespace duoka::parallel {

namespace {

/// Sizes of a block's tensors, in numbers a token; those of the heads and of the MLP are this rank's part.
struct Widths {
  int64_t hidden, q, kv, heads, kv_heads, mlp;
};

Widths widths_of(model::Block& block, const model::ModelConfig& config) {
  const auto linears = block.linears();  // q, k, v, o, gate, up, down
  const int64_t q = linears[0]->outputs().count, kv = linears[1]->outputs().count;
  return {config.hidden_size, q, kv, q / config.head_dim, kv / config.head_dim, linears[4]->outputs().count};
}

/// An adapter keeps x A^T: as many numbers a token as its first parameter has rows.
int64_t adapter_width(const model::Linear& linear) {
  return linear.adapter() != nullptr ? linear.adapter()->parameters().front()->value.size(0) : 0;
}

bool any_needs_input(const std::vector<model::Linear*>& linears, size_t first, size_t last) {
  return std::any_of(linears.begin() + static_cast<int64_t>(first),
                     linears.begin() + static_cast<int64_t>(last),
                     [](const model::Linear* linear) { return linear->needs_input(); });
}

int64_t kept_bytes(const Question& question, const Widths& w, const std::vector<model::Linear*>& linears,
                   bool has_qk_norm) {
  const int64_t n = question.tokens, own = question.own_tokens, wide = question.gradient_bytes;
  int64_t numbers = own * w.hidden;                               // the second norm's input
  numbers += n * (2 * w.q + 2 * w.kv + 2 * w.mlp);                // q, k, v, what attention makes; gate, up
  if (any_needs_input(linears, 0, 3)) numbers += own * w.hidden;  // of q, k and v
  if (any_needs_input(linears, 4, 6)) numbers += own * w.hidden;  // of gate and up
  if (has_qk_norm) numbers += n * (w.q + w.kv);                   // q and k before it
  for (const model::Linear* linear : linears) numbers += n * adapter_width(*linear);
  int64_t wide_numbers = 2 * own + n * w.heads;  // 1/rms of two norms; log-sum-exp
  if (has_qk_norm) wide_numbers += n * (w.heads + w.kv_heads);
  return numbers * question.value_bytes + wide_numbers * wide;
}

/// Both operands of each product that is put off, see Parameter::accumulate_product().
int64_t deferred_bytes(const Question& question, const Widths& w,
                       const std::vector<model::Linear*>& linears) {
  int64_t numbers = 0;  // a token
  for (const model::Linear* linear : linears)
    if (linear->needs_input()) numbers += linear->outputs().count + 2 * adapter_width(*linear);
  if (any_needs_input(linears, 0, 3)) numbers += w.hidden;
  if (any_needs_input(linears, 3, 4)) numbers += w.q;
  if (any_needs_input(linears, 4, 6)) numbers += w.hidden;
  if (any_needs_input(linears, 6, 7)) numbers += w.mlp;
  return question.tokens * numbers * question.value_bytes;
}

/// The larger of the two halves of a block's backward, with the gradient that goes past it, and the product
/// that a gradient of half-precision operands is before it is added.
int64_t working_bytes(const Question& question, const Widths& w, const std::vector<model::Linear*>& linears) {
  const int64_t n = question.tokens, gathered = question.plan.tensor > 1 ? n * w.hidden : 0;
  const int64_t mlp = n * w.mlp * (linears[6]->needs_input() ? 2 : 1) + n * w.hidden + gathered;
  const int64_t attention = n * (2 * w.q + 2 * w.kv) + n * w.hidden + 2 * gathered;
  int64_t product = 0;
  if (question.value_bytes < question.gradient_bytes)
    for (const model::Linear* linear : linears)
      if (linear->weight().is_trainable) product = std::max(product, linear->weight().numel());
  return (question.own_tokens * w.hidden + std::max(mlp, attention) + product) * question.value_bytes;
}

int64_t bytes_of_stage_outputs(const Question& question, const model::ModelConfig& config) {
  return question.own_tokens * config.hidden_size * question.value_bytes;
}

/// What a chunk's forward leaves until its backward, the most that running a layer again adds, and what
/// stays when gradients of weights are put off. moving: of what is offloaded, two layers are in memory.
struct ChunkBytes {
  int64_t saved = 0, again = 0, deferred = 0, moving = 0;
};

/// The layers' `saved` go out, but those of the last one where its backward is not the next thing there is.
void move_out(ChunkBytes& bytes, std::vector<int64_t> layers, bool last_stays) {
  bytes.saved = last_stays && !layers.empty() ? layers.back() : 0;
  std::ranges::sort(layers, std::greater{});
  for (size_t i = 0; i < std::min<size_t>(2, layers.size()); ++i) bytes.moving += layers[i];
}

ChunkBytes chunk_bytes(const Question& question, Outline& outline, size_t chunk) {
  const model::ModelConfig& config = outline.decoder.config();
  const LayerRange stages = outline.chunk(chunk);
  const bool recompute = question.workload.engine.recompute;
  ChunkBytes bytes;
  std::vector<int64_t> layers;
  for (int64_t stage = std::max(stages.first, outline.lowest_stage); stage < stages.last; ++stage) {
    model::Block* block = outline.block_at(stage);
    if (block == nullptr) continue;  // an embedding keeps nothing
    const BlockBytes of = block_bytes(question, *block, config);
    layers.push_back(of.input + (recompute ? 0 : of.kept));
    bytes.saved += layers.back();
    bytes.again = std::max(bytes.again, recompute ? of.kept + of.input : 0);  // its result is there, too
    bytes.deferred += of.deferred;
  }
  const bool has_objective = outline.chain().objective != nullptr && chunk + 1 == outline.layers.size();
  if (question.workload.engine.offload_activations)
    move_out(bytes, std::move(layers), has_objective && question.plan.pipeline > 1);
  if (has_objective) {
    const int64_t x = bytes_of_stage_outputs(question, config);  // until the objective is done
    bytes.saved += x;
    bytes.again = std::max<int64_t>(0, bytes.again - x);
  }
  return bytes;
}

using Kind = PipelineAction::Kind;

/// When each piece of the pipeline begins a micro-batch's forward, where all actions take the same time: what
/// PipelineExchange goes by.
std::map<std::pair<int, int>, double> forward_starts(const Question& question,
                                                     const PipelineTimeline& timeline) {
  std::map<std::pair<int, int>, double> starts;
  for (size_t rank = 0; rank < question.lists.size(); ++rank)
    for (size_t i = 0; i < question.lists[rank].size(); ++i)
      if (const PipelineAction& action = question.lists[rank][i]; action.kind == Kind::forward)
        starts[{action.chunk * question.plan.pipeline + static_cast<int>(rank), action.micro}] =
            timeline.starts[rank][i];
  return starts;
}

/// For each action of this place the activations that are here on their way: received ahead of their turn,
/// made by this action for the next piece, and sent earlier but not yet known to have arrived. See
/// PipelineExchange.
std::vector<int64_t> count_travelling(const Question& question, const Outline& outline) {
  const int p = question.plan.pipeline, num_pieces = p * question.plan.chunks;
  const std::vector<double> ones(static_cast<size_t>(num_pieces), 1.0);
  const PipelineTimeline timeline = simulate(question.lists, {ones, ones, ones});
  const auto wanted = forward_starts(question, timeline);
  const auto& actions = question.lists[static_cast<size_t>(outline.place)];
  const auto piece_of = [&](const PipelineAction& action) { return action.chunk * p + outline.place; };

  std::vector<bool> is_forward;      // of what this place receives, in order
  std::vector<size_t> num_received;  // when an action begins, its own included
  for (const PipelineAction& action : actions) {
    const int piece = piece_of(action);
    const bool receives = action.kind == Kind::forward ? piece > 0
                          : action.kind == Kind::backward_weight
                              ? false
                              : piece + 1 < num_pieces && piece >= outline.lowest_piece;
    if (receives) is_forward.push_back(action.kind == Kind::forward);
    num_received.push_back(is_forward.size());
  }
  std::vector<int64_t> counts;
  std::vector<double> held;  // when their receivers want them
  for (size_t i = 0; i < actions.size(); ++i) {
    const double now = timeline.starts[static_cast<size_t>(outline.place)][i];
    if (actions[i].kind != Kind::backward_weight)
      std::erase_if(held, [&](double when) { return when + PipelineExchange::patience <= now; });
    if (actions[i].kind == Kind::forward && piece_of(actions[i]) + 1 < num_pieces)
      held.push_back(wanted.at({piece_of(actions[i]) + 1, actions[i].micro}));
    const auto begin = is_forward.begin() + static_cast<int64_t>(num_received[i]);
    const auto end = begin + std::min<int64_t>(PipelineExchange::receives_ahead, is_forward.end() - begin);
    counts.push_back(static_cast<int64_t>(held.size()) + std::count(begin, end, true));
  }
  return counts;
}

}  // namespace

BlockBytes block_bytes(const Question& question, model::Block& block, const model::ModelConfig& config) {
  const Widths widths = widths_of(block, config);
  const auto linears = block.linears();
  return {bytes_of_stage_outputs(question, config), kept_bytes(question, widths, linears, config.has_qk_norm),
          deferred_bytes(question, widths, linears), working_bytes(question, widths, linears)};
}

int64_t head_working_bytes(const Question& question, model::Head& head, const model::ModelConfig& config) {
  const int64_t n = question.tokens, own = question.own_tokens, columns = head.weight().value.size(0);
  const int64_t logits = std::min(n, head.rows_per_chunk()) * columns;
  int64_t numbers = logits + 2 * n * config.hidden_size;  // normed rows of all ranks and their gradient
  if (question.plan.tensor > 1) numbers += 2 * own * config.hidden_size;
  if (head.weight().is_trainable && question.value_bytes < question.gradient_bytes)
    numbers += head.weight().numel();
  const bool is_by_operators =
      question.workload.device != at::DeviceType::CPU;  // a log-softmax beside the logits
  return numbers * question.value_bytes + (is_by_operators ? logits * question.gradient_bytes : 0);
}

int64_t activation_bytes(const Question& question, Outline& outline) {
  std::vector<ChunkBytes> chunks;
  for (size_t chunk = 0; chunk < outline.layers.size(); ++chunk)
    chunks.push_back(chunk_bytes(question, outline, chunk));
  if (question.plan.pipeline == 1) return chunks[0].saved + chunks[0].again + chunks[0].moving;
  const int64_t bytes = bytes_of_stage_outputs(question, outline.decoder.config());
  const std::vector<int64_t> travelling = count_travelling(question, outline);
  int64_t now = 0, most = 0;
  const auto& actions = question.lists[static_cast<size_t>(outline.place)];
  for (size_t i = 0; i < actions.size(); ++i) {
    const ChunkBytes& chunk = chunks[static_cast<size_t>(actions[i].chunk)];
    if (actions[i].kind == Kind::forward) now += chunk.saved;
    const int64_t again = actions[i].kind == Kind::forward ? 0 : chunk.again;
    most = std::max(most, now + travelling[i] * bytes + again + chunk.moving);
    if (actions[i].kind == Kind::backward_input) now += chunk.deferred;
    if (actions[i].kind == Kind::backward_weight) now -= chunk.deferred;
    if (actions[i].kind == Kind::backward || actions[i].kind == Kind::backward_input) now -= chunk.saved;
  }
  return most;
}

}  // namespace duoka::parallel
