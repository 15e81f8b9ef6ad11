// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "duoka/core/error.h"
#include "duoka/core/philox.h"
#include "duoka/core/text.h"
#include "duoka/model/decoder.h"

namespace duoka::model {

namespace {
std::vector<float> host_logits(const at::Tensor& logits) {
  const at::Tensor values = logits.detach().to(at::kCPU, at::kFloat).contiguous();
  const float* data = values.const_data_ptr<float>();
  std::vector<float> copy(data, data + values.numel());
  const bool has_nan = std::ranges::any_of(copy, [](float value) { return std::isnan(value); });
  if (copy.empty() || has_nan || !std::isfinite(*std::ranges::max_element(copy)))
    throw StateError(
        "the model's logits are not finite; its weights are damaged, or f16 was too narrow for them");
  return copy;
}

// Keskar et al., arXiv:1909.05858, section 4.1, with the usual care for negative logits.
void penalize(std::vector<float>& logits, std::span<const int64_t> history, double penalty) {
  const auto factor = static_cast<float>(penalty);
  for (const int64_t id : std::unordered_set<int64_t>(history.begin(), history.end())) {
    float& logit = logits.at(static_cast<size_t>(id));
    logit = logit > 0 ? logit / factor : logit * factor;
  }
}

// Ids by falling logit, equal ones by rising id; no more than `count` of them.
std::vector<int64_t> largest(const std::vector<float>& logits, int64_t count) {
  std::vector<int64_t> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  const auto is_before = [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto end = ids.begin() + std::min<int64_t>(count, static_cast<int64_t>(ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), is_before);
  ids.erase(end, ids.end());
  return ids;
}

double uniform(uint64_t seed, int64_t step) {
  const auto counter = static_cast<uint64_t>(step);
  const auto words =
      Philox::words({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                    random_key(seed, "generate"));
  return static_cast<double>((uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
}

int64_t draw(const std::vector<float>& logits, const Sampling& sampling, int64_t step) {
  const auto size = static_cast<int64_t>(logits.size());
  const auto ids = largest(logits, sampling.top_k > 0 ? sampling.top_k : size);
  const double top = logits[static_cast<size_t>(ids.front())];
  std::vector<double> weights(ids.size());
  double total = 0;
  for (size_t i = 0; i < ids.size(); ++i)
    total += weights[i] = std::exp((logits[static_cast<size_t>(ids[i])] - top) / sampling.temperature);
  // The shortest head of the sorted list that holds top_p of the mass.
  size_t kept = 0;
  double mass = 0;
  while (kept < ids.size() && (kept == 0 || mass < sampling.top_p * total)) mass += weights[kept++];
  double left = uniform(sampling.seed, step) * mass;
  for (size_t i = 0; i < kept; ++i)
    if ((left -= weights[i]) < 0) return ids[i];
  return ids[kept - 1];
}

void check_sampling(const Sampling& sampling) {
  const auto refuse = [](const char* what, double found, const char* wanted) {
    throw ConfigError(text(what, " = ", found, "; wanted ", wanted));
  };
  if (!(sampling.temperature >= 0)) refuse("temperature", sampling.temperature, "0 (greedy) or more");
  if (sampling.top_k < 0) refuse("top_k", static_cast<double>(sampling.top_k), "0 (all) or more");
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    refuse("top_p", sampling.top_p, "a number above 0, up to 1");
  if (!(sampling.repetition_penalty > 0))
    refuse("repetition_penalty", sampling.repetition_penalty, "a number above 0");
}
}  // namespace

int64_t choose(const at::Tensor& logits, std::span<const int64_t> history, const Sampling& sampling,
               int64_t step) {
  check_sampling(sampling);
  auto values = host_logits(logits);
  if (sampling.repetition_penalty != 1) penalize(values, history, sampling.repetition_penalty);
  if (sampling.temperature == 0) return std::ranges::max_element(values) - values.begin();
  return draw(values, sampling, step);
}

namespace {
at::Tensor as_tensor(std::span<const int64_t> ids) {
  return at::tensor(at::ArrayRef<int64_t>(ids.data(), ids.size()), at::kLong);
}

// Produces the logits that follow a growing sequence.
class Reader {
 public:
  Reader(Decoder& decoder, bool use_cache)
      : decoder_(decoder), use_cache_(use_cache), cache_(decoder.make_cache()) {}

  at::Tensor next(std::span<const int64_t> sequence) {
    if (!use_cache_) return whole(sequence);
    const auto fresh = sequence.subspan(num_read_);
    num_read_ = sequence.size();
    return decoder_.logits_cached(as_tensor(fresh), cache_);
  }

 private:
  at::Tensor whole(std::span<const int64_t> sequence) {
    const std::vector<int32_t> ids(sequence.begin(), sequence.end());
    const std::vector<int32_t> labels(ids.size(), static_cast<int32_t>(ignore_index));
    const RowView row{ids, labels};
    const Stream stream = make_stream({&row, 1}, decoder_.device());
    const auto last = at::full({1}, static_cast<int64_t>(ids.size()) - 1, stream.ids.options());
    return decoder_.logits(stream, last).squeeze(0);
  }

  Decoder& decoder_;
  bool use_cache_;
  Decoder::Cache cache_;
  size_t num_read_ = 0;
};

// `dynamic` scaling is there to go beyond max_position_embeddings.
int64_t most_positions(const ModelConfig& config) {
  if (config.rope.kind != RopeConfig::Kind::dynamic) return config.max_positions;
  return static_cast<int64_t>(static_cast<double>(config.max_positions) * config.rope.factor);
}

void check_prompt(std::span<const int64_t> prompt, const ModelConfig& config) {
  if (prompt.empty()) throw StateError("generation needs a prompt of at least one token");
  for (const int64_t id : prompt)
    if (id < 0 || id >= config.vocab_size)
      throw StateError(
          text("token id ", id, " of the prompt is not in the vocabulary of ", config.vocab_size));
  if (static_cast<int64_t>(prompt.size()) > most_positions(config))
    throw ConfigError(text("the prompt has ", counted(static_cast<int64_t>(prompt.size()), "token"),
                           "; this model takes ", most_positions(config)));
}
}  // namespace

Generated generate(Decoder& decoder, std::span<const int64_t> prompt, const GenerateOptions& options,
                   const std::function<bool(int64_t)>& on_token) {
  check_prompt(prompt, decoder.config());
  check_sampling(options.sampling);
  Generated out;
  std::vector<int64_t> sequence(prompt.begin(), prompt.end());
  Reader reader(decoder, options.use_cache);
  const int64_t limit = most_positions(decoder.config());
  for (int64_t step = 0; step < options.max_new_tokens; ++step) {
    if (static_cast<int64_t>(sequence.size()) > limit) {
      out.reason = StopReason::max_positions;
      return out;
    }
    const int64_t id = choose(reader.next(sequence), sequence, options.sampling, step);
    if (std::ranges::find(options.stop_ids, id) != options.stop_ids.end()) {
      out.reason = StopReason::stop_id;
      out.stop_id = id;
      return out;
    }
    out.ids.push_back(id);
    sequence.push_back(id);
    if (on_token && !on_token(id)) {
      out.reason = StopReason::callback;
      return out;
    }
  }
  return out;
}

}  // namespace duoka::model
