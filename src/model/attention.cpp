// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/attention.h"

#include <algorithm>
#include <limits>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "duoka/core/error.h"
#include "model/attention_ring.h"

namespace duoka::model {

namespace {

const AttentionConfig& checked(const AttentionConfig& config) {
  const bool fits = config.hidden_size > 0 && config.head_dim > 0 && config.num_heads > 0 &&
                    config.num_kv_heads > 0 && config.num_heads % config.num_kv_heads == 0 &&
                    config.sliding_window >= 0;
  if (!fits)
    throw FormatError("attention: num_attention_heads = " + std::to_string(config.num_heads) +
                      ", num_key_value_heads = " + std::to_string(config.num_kv_heads) +
                      ", head_dim = " + std::to_string(config.head_dim) +
                      ", hidden_size = " + std::to_string(config.hidden_size) +
                      ", sliding_window = " + std::to_string(config.sliding_window) +
                      "; wanted positive numbers, the second dividing the first");
  return config;
}

/// The heads of one rank; the axis divides their numbers.
AttentionConfig heads_of_rank(AttentionConfig config, const TensorAxis& axis) {
  if (config.num_heads % axis.size() != 0 || config.num_kv_heads % axis.size() != 0)
    throw StateError("attention: " + std::to_string(config.num_heads) + " heads and " +
                     std::to_string(config.num_kv_heads) + " key-value heads for a tensor axis of " +
                     std::to_string(axis.size()));
  config.num_heads /= axis.size();
  config.num_kv_heads /= axis.size();
  return config;
}

std::optional<RmsNorm> head_norm(const ParameterSource& source, const std::string& module,
                                 const AttentionConfig& config) {
  if (!config.has_qk_norm) return std::nullopt;
  return RmsNorm(source({module + ".weight", {config.head_dim}}), config.norm_eps);
}

/// Makes room for `more` rows; doubling keeps the cost of a token constant.
void grow(at::Tensor& rows, int64_t length, const at::Tensor& more) {
  const int64_t capacity = rows.defined() ? rows.size(0) : 0, wanted = length + more.size(0);
  if (wanted <= capacity) return;
  auto shape = more.sizes().vec();
  shape[0] = std::max({wanted, 2 * capacity, int64_t{64}});
  at::Tensor grown = at::empty(shape, more.options());
  if (length > 0) grown.narrow(0, 0, length).copy_(rows.narrow(0, 0, length));
  rows = std::move(grown);
}

void append(KvCache& cache, const at::Tensor& k, const at::Tensor& v) {
  grow(cache.k, cache.length, k);
  grow(cache.v, cache.length, v);
  cache.k.narrow(0, cache.length, k.size(0)).copy_(k);
  cache.v.narrow(0, cache.length, v.size(0)).copy_(v);
  cache.length += k.size(0);
}

/// [n, H, d] -> [1, H, n, d], as ATen's attention wants it.
at::Tensor heads_first(const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); }

/// 0 where query i (position past + i) sees key j, -inf elsewhere. Keys start at position `first`.
at::Tensor cached_mask(const at::Tensor& q, int64_t past, int64_t first, int64_t num_keys, int64_t window) {
  const auto outside = at::full({q.size(0), num_keys}, -std::numeric_limits<double>::infinity(), q.options());
  const int64_t own = past - first;
  return window > 0 ? outside.triu(own + 1) + outside.tril(own - window) : outside.triu(own + 1);
}

}  // namespace

Attention::Attention(const ParameterSource& source, const std::string& prefix, const AttentionConfig& config,
                     std::shared_ptr<const Rope> rope, std::shared_ptr<const TensorAxis> axis,
                     std::shared_ptr<const ContextAxis> context)
    : config_(heads_of_rank(checked(config), *axis)),
      rope_(std::move(rope)),
      axis_(std::move(axis)),
      context_(std::move(context)),
      q_proj_(source, prefix + ".q_proj", config.num_heads * config.head_dim, config.hidden_size,
              config.has_qkv_bias, Split::outputs, *axis_),
      k_proj_(source, prefix + ".k_proj", config.num_kv_heads * config.head_dim, config.hidden_size,
              config.has_qkv_bias, Split::outputs, *axis_),
      v_proj_(source, prefix + ".v_proj", config.num_kv_heads * config.head_dim, config.hidden_size,
              config.has_qkv_bias, Split::outputs, *axis_),
      o_proj_(source, prefix + ".o_proj", config.hidden_size, config.num_heads * config.head_dim,
              config.has_output_bias, Split::inputs, *axis_),
      q_norm_(head_norm(source, prefix + ".q_norm", config)),
      k_norm_(head_norm(source, prefix + ".k_norm", config)) {}

std::vector<Linear*> Attention::linears() { return {&q_proj_, &k_proj_, &v_proj_, &o_proj_}; }

std::vector<Parameter*> Attention::parameters() {
  std::vector<Parameter*> all;
  for (Linear* linear : linears())
    for (Parameter* parameter : linear->parameters()) all.push_back(parameter);
  for (auto* norm : {&q_norm_, &k_norm_})
    if (*norm) all.push_back(&(*norm)->weight());
  return all;
}

// Projections are fresh tensors that no backward reads, so they are turned in place.
Attention::Heads Attention::project(const at::Tensor& x, const Rope::Angles& angles, const Stream& stream,
                                    Saved& saved) {
  const int64_t d = config_.head_dim;
  Heads heads{q_proj_.project(x, stream, saved).view({-1, config_.num_heads, d}),
              k_proj_.project(x, stream, saved).view({-1, config_.num_kv_heads, d}),
              v_proj_.project(x, stream, saved).view({-1, config_.num_kv_heads, d})};
  if (q_norm_) {
    heads.q = q_norm_->forward(heads.q, stream, saved);
    heads.k = k_norm_->forward(heads.k, stream, saved);
  }
  Rope::rotate_(heads.q, angles);
  Rope::rotate_(heads.k, angles);
  return heads;
}

// What attention keeps goes onto the stack after o_proj's adapter has put its own there: backward needs `out`
// before that adapter runs.
at::Tensor Attention::forward(const at::Tensor& x, const Stream& stream, Saved& saved) {
  const Heads heads =
      project(axis_->gather_tokens(x, stream), rope_->angles(stream, x.scalar_type()), stream, saved);
  if (needs_input()) saved.push(x);
  const Attended attended = attend_ring(*context_, heads.q, heads.k, heads.v, stream, config_.sliding_window);
  const at::Tensor y = o_proj_.project(attended.out.flatten(1), stream, saved);
  for (const at::Tensor& tensor : attended.context) saved.push(tensor);
  for (const at::Tensor& tensor : {attended.out, heads.v, heads.k, heads.q}) saved.push(tensor);
  return axis_->scatter_sum_tokens(y, stream);
}

at::Tensor Attention::backward(const at::Tensor& dy, const Stream& stream, Saved& saved) {
  const at::Tensor q = saved.pop(), k = saved.pop(), v = saved.pop();
  Attended attended{saved.pop(), std::vector<at::Tensor>(num_ring_context(*context_, q))};
  for (auto tensor = attended.context.rbegin(); tensor != attended.context.rend(); ++tensor)
    *tensor = saved.pop();

  at::Tensor dout;
  o_proj_.backward_into(axis_->gather_tokens(dy, stream), attended.out.flatten(1), stream, saved, dout);
  AttentionGradients d =
      attend_ring_backward(*context_, dout.view_as(q), q, k, v, attended, stream, config_.sliding_window);
  const at::Tensor x = needs_input() ? axis_->gather_tokens(saved.pop(), stream) : at::Tensor();
  const Rope::Angles angles = rope_->angles(stream, q.scalar_type());
  Rope::rotate_(d.dq, angles, true);
  Rope::rotate_(d.dk, angles, true);
  if (q_norm_) {
    d.dk = k_norm_->backward(d.dk, stream, saved);
    d.dq = q_norm_->backward(d.dq, stream, saved);
  }
  at::Tensor dx;
  v_proj_.backward_into(d.dv.flatten(1), x, stream, saved, dx);
  k_proj_.backward_into(d.dk.flatten(1), x, stream, saved, dx);
  q_proj_.backward_into(d.dq.flatten(1), x, stream, saved, dx);
  return axis_->scatter_sum_tokens(dx, stream);
}

bool Attention::needs_input() const {
  return q_proj_.needs_input() || k_proj_.needs_input() || v_proj_.needs_input();
}

at::Tensor Attention::forward_cached(const at::Tensor& x, KvCache& cache) {
  require_solo(*axis_, "generation");
  require_solo(*context_, "generation");
  Saved nothing(false);
  Stream evaluation;
  evaluation.is_training = false;  // so adapters drop nothing and need to know no more of the tokens
  const int64_t past = cache.length, count = x.size(0);
  const Heads heads =
      project(x, rope_->angles(past, count, x.scalar_type(), x.device()), evaluation, nothing);
  append(cache, heads.k, heads.v);
  // Keys before the window of the first new token are seen by none of the new ones.
  const int64_t window = config_.sliding_window;
  const int64_t first = window > 0 ? std::max<int64_t>(0, past + 1 - window) : 0,
                num_keys = cache.length - first;
  std::optional<at::Tensor> mask;
  const bool is_causal = past == 0 && count > 1 && (window == 0 || window >= count);
  if (!is_causal && count > 1) mask = cached_mask(heads.q, past, first, num_keys, window);
  const auto out =
      at::scaled_dot_product_attention(heads_first(heads.q), heads_first(cache.k.narrow(0, first, num_keys)),
                                       heads_first(cache.v.narrow(0, first, num_keys)), mask, 0.0, is_causal,
                                       std::nullopt, /*enable_gqa=*/true);
  return o_proj_.apply(out.squeeze(0).transpose(0, 1).reshape({count, -1}));
}

}  // namespace duoka::model
