// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/block.h"

#include "model/reference_layers.h"

namespace duoka::model {
namespace {

using namespace test;

BlockConfig config_of() {
  BlockConfig config;
  config.attention.hidden_size = config.mlp.hidden_size = 24;
  config.attention.num_heads = 4;
  config.attention.num_kv_heads = 2;
  config.attention.head_dim = 8;
  config.mlp.intermediate_size = 40;
  return config;
}

std::shared_ptr<const Rope> rope() {
  RopeConfig config;
  config.head_dim = 8;
  return std::make_shared<const Rope>(config);
}

constexpr const char* prefix = "model.layers.0";

TEST(Block, MatchesAutograd) {
  const BlockConfig config = config_of();
  const Stream stream = stream_of({7, 1, 12});
  for (const std::string trained : {"", "none", "self_attn", "mlp", "layernorm"}) {
    Block block(
        random_source(at::kDouble, [&](const std::string& name) { return name.find(trained) != name.npos; }),
        prefix, config, rope());
    expect_matches_autograd(block, random_tensor("x", {20, 24}), stream, [&](const auto& x, const Leaves& w) {
      return block_reference(x, w, prefix, config, *rope(), stream);
    });
  }
}

TEST(Block, HasHuggingFacesNames) {
  Block block(random_source(), prefix, config_of(), rope());
  std::vector<std::string> names;
  for (const Parameter* p : block.parameters())
    names.push_back(p->name.substr(std::string(prefix).size() + 1));
  EXPECT_EQ(names,
            (std::vector<std::string>{"input_layernorm.weight", "self_attn.q_proj.weight",
                                      "self_attn.k_proj.weight", "self_attn.v_proj.weight",
                                      "self_attn.o_proj.weight", "post_attention_layernorm.weight",
                                      "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"}));
  EXPECT_EQ(block.linears().size(), 7U);
}

TEST(Block, RecomputingGivesTheSameBits) {
  Block block(random_source(at::kFloat), prefix, config_of(), rope());
  const Stream stream = stream_of({7, 1, 12});
  const auto x = random_tensor("x", {20, 24}, at::kFloat), dy = random_tensor("dy", {20, 24}, at::kFloat);
  Saved nothing(false), first, second;
  const auto y = block.forward(x, stream, nothing);
  EXPECT_TRUE(at::equal(y, block.forward(x, stream, first)));
  const auto dx = block.backward(dy, stream, first);
  const auto gradient = block.parameters()[1]->grad.clone();
  block.parameters()[1]->grad.zero_();
  EXPECT_TRUE(at::equal(y, block.forward(x, stream, second)));
  EXPECT_TRUE(at::equal(dx, block.backward(dy, stream, second)));
  EXPECT_TRUE(at::equal(gradient, block.parameters()[1]->grad));
}

TEST(Block, CachedEqualsWhole) {
  Block block(random_source(), prefix, config_of(), rope());
  const auto x = random_tensor("x", {12, 24});
  Saved nothing(false);
  const auto whole = block.forward(x, stream_of({12}), nothing);
  KvCache cache;
  const auto start = block.forward_cached(x.narrow(0, 0, 9), cache);
  EXPECT_LT(relative_error(start, whole.narrow(0, 0, 9)), 1e-12);
  for (int64_t i = 9; i < 12; ++i)
    EXPECT_LT(relative_error(block.forward_cached(x.narrow(0, i, 1), cache), whole.narrow(0, i, 1)), 1e-12);
}

/// Half-precision block against the f32 one with the same (rounded) weights.
void compare_with_f32(at::ScalarType dtype, double tolerance) {
  const Stream stream = stream_of({30, 34});
  const auto rounded = [dtype](const ParameterRequest& request) {
    Parameter p = random_source(dtype)(request);
    p.value = p.value.to(at::kFloat);
    return p;
  };
  Block half(random_source(dtype), prefix, config_of(), rope()), wide(rounded, prefix, config_of(), rope());
  const auto x = random_tensor("x", {64, 24}, dtype), dy = random_tensor("dy", {64, 24}, dtype);
  Saved saved, wide_saved;
  EXPECT_LT(
      relative_error(half.forward(x, stream, saved), wide.forward(x.to(at::kFloat), stream, wide_saved)),
      tolerance);
  EXPECT_LT(
      relative_error(half.backward(dy, stream, saved), wide.backward(dy.to(at::kFloat), stream, wide_saved)),
      tolerance);
  const auto parameters = half.parameters(), wide_parameters = wide.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(parameters[i]->grad.scalar_type(), at::kFloat);
    EXPECT_LT(relative_error(parameters[i]->grad, wide_parameters[i]->grad), tolerance)
        << parameters[i]->name;
  }
}

TEST(Block, HalfTypesAreNearF32) {
  compare_with_f32(at::kBFloat16, 2e-2);
  compare_with_f32(at::kHalf, 4e-3);
}

}  // namespace
}  // namespace duoka::model
