// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace duoka::model {

class Decoder;

/// How the next token is chosen. Applied in transformers' order: repetition penalty, temperature, top-k,
/// top-p, then a draw.
struct Sampling {
  double temperature = 0;         ///< 0: greedy, the largest logit (the first of equals).
  int64_t top_k = 0;              ///< Only the k largest; 0: all.
  double top_p = 1;               ///< The smallest set of largest whose probabilities reach p; 1: all.
  double repetition_penalty = 1;  ///< Logits of ids seen before: divided by it if positive, else multiplied.
  uint64_t seed = 0;              ///< Token i of a reply depends on seed, i and the logits alone.
};

/// The next id of `logits` [V] (any floating dtype, any device). `history`: prompt and reply so far;
/// `step`: the number of the token in the reply. Throws StateError when the logits are not finite anywhere.
int64_t choose(const at::Tensor& logits, std::span<const int64_t> history, const Sampling& sampling,
               int64_t step);

struct GenerateOptions {
  int64_t max_new_tokens = 256;
  std::vector<int64_t> stop_ids = {};  ///< Any of these ends the reply and is not part of it.
  Sampling sampling = {};
  bool use_cache = true;  ///< Keep keys and values; off computes all positions again for each token.
};

enum class StopReason { stop_id, max_new_tokens, max_positions, callback };

struct Generated {
  std::vector<int64_t> ids;  ///< The reply, without the prompt and without the stop id.
  StopReason reason = StopReason::max_new_tokens;
  int64_t stop_id = -1;  ///< The id that ended it, when reason is stop_id.
};

/// Continues `prompt` (not empty, every id below the vocabulary's size; else StateError). `on_token` is
/// called with each id of the reply as it comes; returning false ends the reply after that id.
/// Stops at the model's max_positions. Costs one forward of the prompt, then one token at a time.
Generated generate(Decoder& decoder, std::span<const int64_t> prompt, const GenerateOptions& options,
                   const std::function<bool(int64_t)>& on_token = {});

}  // namespace duoka::model
