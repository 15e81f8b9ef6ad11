// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/attention.h"

#include <ATen/Parallel.h>

#include "duoka/core/error.h"
#include "model/attention_kernel.h"
#include "model/reference_layers.h"

namespace duoka::model {
namespace {

using namespace test;

AttentionConfig config_of(int64_t num_heads, int64_t num_kv_heads, int64_t head_dim = 8) {
  AttentionConfig config;
  config.hidden_size = 12;  // not num_heads * head_dim
  config.num_heads = num_heads;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = head_dim;
  return config;
}

std::shared_ptr<const Rope> rope_of(const AttentionConfig& config) {
  RopeConfig rope;
  rope.head_dim = config.head_dim;
  return std::make_shared<const Rope>(rope);
}

void check(
    const AttentionConfig& config, const Stream& stream,
    std::function<bool(const std::string&)> is_trainable = [](auto&) { return true; }) {
  const auto rope = rope_of(config);
  Attention attention(random_source(at::kDouble, std::move(is_trainable)), "a", config, rope);
  expect_matches_autograd(
      attention, random_tensor("x", {stream.num_tokens(), config.hidden_size}), stream,
      [&](const auto& x, const Leaves& w) { return attention_reference(x, w, "a", config, *rope, stream); });
}

TEST(Attention, MatchesAutograd) {
  check(config_of(4, 4), stream_of({9}));
  check(config_of(4, 4), stream_of({5, 1, 11}));
}

TEST(Attention, GroupedHeadsMatchAutograd) {
  check(config_of(6, 2), stream_of({5, 1, 11}));
  check(config_of(3, 1), stream_of({70, 40}));
}

TEST(Attention, BiasesAndHeadNormsMatchAutograd) {
  AttentionConfig config = config_of(4, 2);
  config.has_qkv_bias = config.has_output_bias = true;
  check(config, stream_of({5, 8}));
  config.has_qk_norm = true;
  check(config, stream_of({5, 8}));
}

TEST(Attention, SlidingWindowMatchesAutograd) {
  AttentionConfig config = config_of(4, 2);
  for (const int64_t window : {2, 3, 8, 9, 100}) {
    config.sliding_window = window;
    check(config, stream_of({9, 2, 20}));
  }
}

TEST(Attention, FrozenMixesMatchAutograd) {
  AttentionConfig config = config_of(4, 2);
  config.has_qk_norm = config.has_qkv_bias = true;
  for (const std::string trained : {"none", "q_proj", "k_proj.weight", "v_proj.bias", "o_proj", "q_norm"})
    check(config, stream_of({6, 5}),
          [&](const std::string& name) { return name.find(trained) != name.npos; });
}

/// Case E04: q·k of two vectors of 128 entries all 32 is 131072, beyond the largest f16.
TEST(Attention, CaseE04ScoresDoNotOverflowInF16) {
  const Stream stream = stream_of({3});
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat}) {
    const auto q = at::full({3, 1, 128}, 32, dtype);
    auto k = q.clone();
    k[2].zero_();
    const auto v = at::tensor({1, 3, 100}).to(dtype).view({3, 1, 1}).expand({3, 1, 128}).contiguous();
    const auto out = attend(q, k, v, stream, 0).out;  // the last token weighs 0.5, 0.5 and 0
    EXPECT_TRUE(at::equal(out[2], at::full({1, 128}, 2, dtype))) << c10::toString(dtype) << out[2][0][0];
  }
}

struct Results {
  at::Tensor out, dq, dk, dv;
};

/// Attention of random heads [N, num_heads, d] over `stream`, in `dtype` on `num_threads` threads.
Results attend_random(at::ScalarType dtype, const AttentionConfig& config, const Stream& stream,
                      int num_threads) {
  const int64_t n = stream.num_tokens(), d = config.head_dim;
  // Rounded first, so that every dtype has the same numbers.
  const auto heads = [&](const std::string& name, int64_t count) {
    return random_tensor(name, {n, count, d}).to(at::kBFloat16).to(dtype);
  };
  const auto q = heads("q", config.num_heads), k = heads("k", config.num_kv_heads),
             v = heads("v", config.num_kv_heads), dout = heads("dout", config.num_heads);
  const int before = at::get_num_threads();
  at::set_num_threads(num_threads);
  const Attended seen = attend(q, k, v, stream, config.sliding_window);
  const AttentionGradients d_of = attend_backward(dout, q, k, v, seen, stream, config.sliding_window);
  at::set_num_threads(before);
  return {seen.out, d_of.dq, d_of.dk, d_of.dv};
}

void expect_near(const Results& found, const Results& wanted, double tolerance) {
  EXPECT_LT(relative_error(found.out.to(at::kDouble), wanted.out), tolerance);
  EXPECT_LT(relative_error(found.dq.to(at::kDouble), wanted.dq), tolerance);
  EXPECT_LT(relative_error(found.dk.to(at::kDouble), wanted.dk), tolerance);
  EXPECT_LT(relative_error(found.dv.to(at::kDouble), wanted.dv), tolerance);
}

// Segments that end anywhere in a tile of queries and of keys; heads in groups that a tile has one or more
// of.
TEST(Attention, IsTheSameInEveryType) {
  for (const int64_t num_heads : {2, 6, 14})
    for (const int64_t window : {0, 70}) {
      AttentionConfig config = config_of(num_heads, 2, 16);
      config.sliding_window = window;
      const Stream stream = stream_of({1, 63, 64, 65, 129, 17, 300});
      const Results wanted = attend_random(at::kDouble, config, stream, 1);
      expect_near(attend_random(at::kFloat, config, stream, 1), wanted, 2e-6);
      expect_near(attend_random(at::kHalf, config, stream, 1), wanted, 2e-3);
      expect_near(attend_random(at::kBFloat16, config, stream, 1), wanted, 1.5e-2);
    }
}

// One long segment is cut into parts whose gradients of keys are added up.
TEST(Attention, IsTheSameOnEveryNumberOfThreads) {
  for (const int64_t window : {0, 700}) {
    AttentionConfig config = config_of(2, 1);
    config.sliding_window = window;
    const Stream stream = stream_of({5, 2200, 40});
    const Results wanted = attend_random(at::kDouble, config, stream, 1);
    for (const int num_threads : {2, 8}) {
      expect_near(attend_random(at::kDouble, config, stream, num_threads), wanted, 1e-12);
      const Results once = attend_random(at::kFloat, config, stream, num_threads),
                    again = attend_random(at::kFloat, config, stream, num_threads);
      expect_near(once, wanted, 1e-5);
      EXPECT_TRUE(at::equal(once.out, again.out) && at::equal(once.dq, again.dq) &&
                  at::equal(once.dk, again.dk) && at::equal(once.dv, again.dv));
    }
  }
}

TEST(Attention, KeepsNoCopies) {
  const AttentionConfig config = config_of(4, 2);
  Attention attention(random_source(at::kFloat, [](auto&) { return false; }), "a", config, rope_of(config));
  const Stream stream = stream_of({10, 6});
  Saved saved;
  attention.forward(random_tensor("x", {16, 12}, at::kFloat), stream, saved);
  // q and out [N, 4, 8], k and v [N, 2, 8], one log-sum-exp a token and head.
  EXPECT_EQ(saved.num_bytes(), 16 * 4 * (2 * 4 * 8 + 2 * 2 * 8 + 4));
}

void check_cached(const AttentionConfig& config, const std::vector<int64_t>& pieces) {
  Attention attention(random_source(), "a", config, rope_of(config));
  const auto x = random_tensor("x", {20, config.hidden_size});
  Saved nothing(false);
  const auto whole = attention.forward(x, stream_of({20}), nothing);
  KvCache cache;
  int64_t begin = 0;
  for (const int64_t count : pieces) {
    const auto piece = attention.forward_cached(x.narrow(0, begin, count), cache);
    EXPECT_LT(relative_error(piece, whole.narrow(0, begin, count)), 1e-12) << "tokens from " << begin;
    begin += count;
  }
  EXPECT_EQ(cache.length, 20);
}

TEST(Attention, CachedEqualsWhole) {
  for (const int64_t window : {0, 1, 4, 15}) {
    AttentionConfig config = config_of(4, 2);
    config.has_qk_norm = true;
    config.sliding_window = window;
    check_cached(config, {20});
    check_cached(config, {7, 1, 1, 8, 2, 1});
    check_cached(config, std::vector<int64_t>(20, 1));
  }
}

TEST(Attention, CacheGrowsByDoubling) {
  const AttentionConfig config = config_of(4, 2);
  Attention attention(random_source(), "a", config, rope_of(config));
  KvCache cache;
  for (int64_t i = 0; i < 70; ++i) attention.forward_cached(random_tensor("x", {1, 12}), cache);
  EXPECT_EQ(cache.k.size(0), 128);
  EXPECT_EQ(cache.length, 70);
}

TEST(Attention, RefusesHeadsThatDoNotFit) {
  for (const auto& [heads, kv_heads] : {std::pair{4, 3}, {4, 0}, {0, 1}, {2, 4}})
    EXPECT_THROW(Attention(random_source(), "a", config_of(heads, kv_heads), rope_of(config_of(4, 4))),
                 FormatError);
}

}  // namespace
}  // namespace duoka::model
