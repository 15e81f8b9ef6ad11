// SPDX-License-Identifier: Apache-2.0
// What the layers of model/ save for their backward, tensor by tensor in the order of their forward.
#include <algorithm>

#include "duoka/core/error.h"
#include "parallel/estimate_parts.h"

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
/// stays when gradients of weights are put off.
struct ChunkBytes {
  int64_t saved = 0, again = 0, deferred = 0;
};

ChunkBytes chunk_bytes(const Question& question, Outline& outline, size_t chunk) {
  const model::ModelConfig& config = outline.decoder.config();
  const LayerRange stages = outline.chunk(chunk);
  const bool recompute = question.workload.engine.recompute;
  ChunkBytes bytes;
  for (int64_t stage = std::max(stages.first, outline.lowest_stage); stage < stages.last; ++stage) {
    model::Block* block = outline.block_at(stage);
    if (block == nullptr) continue;  // an embedding keeps nothing
    const BlockBytes of = block_bytes(question, *block, config);
    bytes.saved += of.input + (recompute ? 0 : of.kept);
    bytes.again = std::max(bytes.again, recompute ? of.kept : 0);
    bytes.deferred += of.deferred;
  }
  if (outline.chain().objective != nullptr && chunk + 1 == outline.layers.size()) {
    const int64_t x = bytes_of_stage_outputs(question, config);  // until the objective is done
    bytes.saved += x;
    bytes.again = std::max<int64_t>(0, bytes.again - x);
  }
  return bytes;
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
  const int64_t chunk_rows =
      std::max<int64_t>(1, model::Head::default_chunk_bytes / (columns * question.value_bytes));
  const int64_t logits = std::min(n, chunk_rows) * columns;
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
  if (question.plan.pipeline == 1) return chunks[0].saved + chunks[0].again;
  int64_t now = 0, most = 0;
  for (const PipelineAction& action : question.lists[static_cast<size_t>(outline.place)]) {
    using Kind = PipelineAction::Kind;
    const ChunkBytes& chunk = chunks[static_cast<size_t>(action.chunk)];
    if (action.kind == Kind::forward) {
      now += chunk.saved;
    } else if (action.kind == Kind::backward_weight) {
      now -= chunk.deferred;
    } else {
      most = std::max(most, now + chunk.again);
      now += (action.kind == Kind::backward_input ? chunk.deferred : 0) - chunk.saved;
    }
    most = std::max(most, now);
  }
  return most;
}

}  // namespace duoka::parallel
