// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/rope.h"

#include <fstream>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/stream_cut.h"
#include "model/operators.h"
#include "model/reference_layers.h"
#include "support/test_files.h"

namespace duoka::model {
namespace {

using namespace test;

RopeConfig config_of(RopeConfig::Kind kind, int64_t head_dim = 8) {
  RopeConfig config;
  config.kind = kind;
  config.head_dim = head_dim;
  config.max_positions = 64;
  config.factor = kind == RopeConfig::Kind::standard ? 1 : 4;
  config.original_max_positions = 32;
  return config;
}

nlohmann::json json_of(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(testing::fixture(name)));
}

TEST(Rope, TablesAreRightAtLongPositions) {
  const auto expected = json_of("cases/E02_expected.json");
  RopeConfig config;
  config.head_dim = 128;
  const Rope rope(config);
  for (const auto& row : expected["rows"]) {
    // The angles of a bf16 model are f32.
    const auto angles = rope.angles(row["position"].get<int64_t>(), 1, at::kBFloat16, at::kCPU);
    EXPECT_EQ(angles.cos.scalar_type(), at::kFloat);
    EXPECT_NEAR(angles.cos[0][0].item<double>(), row["cos"].get<double>(), 5e-4);
    EXPECT_NEAR(angles.sin[0][0].item<double>(), row["sin"].get<double>(), 5e-4);
  }
  const auto& second = expected["second_pair_head_dim_128_theta_1e4"];
  EXPECT_NEAR(rope.inverse_frequencies(1)[1], second["inv_freq"].get<double>(), 1e-7);
  EXPECT_NEAR(rope.angles(4097, 1, at::kBFloat16, at::kCPU).cos[0][1].item<double>(),
              second["cos_at_4097"].get<double>(), 5e-4);
}

TEST(Rope, FrequenciesAreThoseOfTransformers) {
  const auto recorded = json_of("golden/rope.json");
  for (const auto& entry : recorded["cases"]) {
    const auto& from = entry["config"];
    RopeConfig config;
    config.kind = rope_kind(from["rope_type"]);
    config.head_dim = from["head_dim"];
    config.theta = from["rope_theta"];
    config.max_positions = from["max_position_embeddings"];
    config.partial_rotary_factor = from.value("partial_rotary_factor", 1.0);
    config.factor = from.value("factor", 1.0);
    config.original_max_positions = from.value("original_max_position_embeddings", int64_t{0});
    config.low_freq_factor = from.value("low_freq_factor", 1.0);
    config.high_freq_factor = from.value("high_freq_factor", 4.0);
    config.beta_fast = from.value("beta_fast", 32.0);
    config.beta_slow = from.value("beta_slow", 1.0);
    config.truncate = from.value("truncate", true);
    for (auto [key, field] : {std::pair{"attention_factor", &config.attention_factor},
                              {"mscale", &config.mscale},
                              {"mscale_all_dim", &config.mscale_all_dim}})
      if (from.contains(key)) *field = from[key].get<double>();
    const Rope rope(config);
    const auto found = rope.inverse_frequencies(entry["length"]);
    const auto wanted = entry["inv_freq"].get<std::vector<double>>();
    ASSERT_EQ(found.size(), wanted.size()) << from;
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(found[i] / wanted[i], 1, 2e-6) << from << " pair " << i;
    EXPECT_NEAR(rope.attention_factor(), entry["attention_factor"].get<double>(), 1e-6) << from;
  }
}

TEST(Rope, TurnsAsHuggingFaceAndBack) {
  for (const double share : {1.0, 0.5}) {
    RopeConfig config = config_of(RopeConfig::Kind::yarn);
    config.partial_rotary_factor = share;
    config.attention_factor = 1.25;
    const Rope rope(config);
    const Stream stream = stream_of({5, 9, 3});
    const auto x = random_tensor("x", {17, 3, 8});
    const auto angles = rope.angles(stream, at::kDouble);
    auto turned = x.clone();
    Rope::rotate_(turned, angles);
    EXPECT_LT(relative_error(turned, rope_reference(x, stream, rope.inverse_frequencies(9), 1.25)), 1e-12);

    const auto leaf = x.clone().set_requires_grad(true);
    const auto dy = random_tensor("dy", {17, 3, 8});
    const auto wanted = torch::autograd::grad(
        {rope_reference(leaf, stream, rope.inverse_frequencies(9), 1.25)}, {leaf}, {dy})[0];
    auto dx = dy.clone();
    Rope::rotate_(dx, angles, true);
    EXPECT_LT(relative_error(dx, wanted), 1e-12);

    auto by_operators = x.clone();
    operators::rotate_(by_operators, angles, false);
    EXPECT_LT(relative_error(turned, by_operators), 1e-14);
    operators::rotate_(by_operators, angles, true);
    const auto factor = 1.25 * 1.25;
    EXPECT_LT(relative_error(by_operators.narrow(2, 0, 4), x.narrow(2, 0, 4) * factor), 1e-12)
        << "a turn and back";
  }
}

TEST(Rope, HalfTypesAreTurnedInF32) {
  const Rope rope(config_of(RopeConfig::Kind::standard));
  const Stream stream = stream_of({40});
  const auto x = random_tensor("x", {40, 2, 8}, at::kBFloat16);
  auto half = x.clone(), wide = x.to(at::kFloat);
  Rope::rotate_(half, rope.angles(stream, at::kBFloat16));
  Rope::rotate_(wide, rope.angles(stream, at::kFloat));
  EXPECT_TRUE(at::equal(half, wide.to(at::kBFloat16)));
}

TEST(Rope, DynamicFollowsEachSegmentsOwnLength) {
  const Rope rope(config_of(RopeConfig::Kind::dynamic));
  const Stream packed = stream_of({100, 20, 70});
  const auto all = rope.angles(packed, at::kDouble);
  for (size_t s = 0; s < 3; ++s) {
    const int64_t begin = packed.segment_offsets[s], length = packed.segment_offsets[s + 1] - begin;
    const auto alone = rope.angles(stream_of({length}), at::kDouble);
    EXPECT_TRUE(at::equal(all.cos.narrow(0, begin, length), alone.cos)) << length;
    EXPECT_TRUE(at::equal(all.sin.narrow(0, begin, length), alone.sin)) << length;
  }
  EXPECT_FALSE(at::equal(all.sin.narrow(0, 0, 20), all.sin.narrow(0, 100, 20)))
      << "a longer sequence turns slower";
}

TEST(Rope, PartOfAStreamTurnsAsTheWhole) {
  for (const auto kind : {RopeConfig::Kind::standard, RopeConfig::Kind::dynamic}) {
    const Rope rope(config_of(kind));
    const Stream whole = stream_of({100, 20, 70});
    const auto all = rope.angles(whole, at::kDouble);
    for (int rank = 0; rank < 3; ++rank) {
      const Stream part = cut_stream(whole, rank, 3);
      const auto lengths = at::tensor(part.segment_offsets, at::kLong).diff();
      const auto begins = at::tensor({0, 100, 120}, at::kLong).repeat_interleave(lengths);
      const auto own = rope.angles(part, at::kDouble);
      EXPECT_TRUE(at::equal(own.cos, all.cos.index_select(0, part.positions + begins))) << rank;
      EXPECT_TRUE(at::equal(own.sin, all.sin.index_select(0, part.positions + begins))) << rank;
    }
  }
}

TEST(Rope, TablesGrow) {
  const Rope rope(config_of(RopeConfig::Kind::linear));
  const auto before = rope.angles(0, 10, at::kFloat, at::kCPU);
  rope.angles(5000, 1, at::kFloat, at::kCPU);
  EXPECT_TRUE(at::equal(before.cos, rope.angles(0, 10, at::kFloat, at::kCPU).cos));
}

TEST(Rope, RefusesWhatCannotBe) {
  const auto refuse = [](auto change) {
    RopeConfig config = config_of(RopeConfig::Kind::yarn);
    change(config);
    EXPECT_THROW(Rope{config}, FormatError);
  };
  refuse([](RopeConfig& c) { c.head_dim = 0; });
  refuse([](RopeConfig& c) { c.head_dim = 7; });
  refuse([](RopeConfig& c) { c.partial_rotary_factor = 0; });
  refuse([](RopeConfig& c) { c.theta = NAN; });
  refuse([](RopeConfig& c) { c.factor = 0.5; });
  refuse([](RopeConfig& c) { c.max_positions = 0; });
  refuse([](RopeConfig& c) { c.beta_fast = 0.5; });
  EXPECT_THROW(rope_kind("longrope"), FormatError);
  const Rope rope(config_of(RopeConfig::Kind::standard));
  EXPECT_THROW(rope.angles(int64_t{1} << 40, 1, at::kFloat, at::kCPU), StateError)
      << "not a table of terabytes";
}

}  // namespace
}  // namespace duoka::model
