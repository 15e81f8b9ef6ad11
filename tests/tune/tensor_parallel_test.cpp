// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "duoka/tune/lora.h"
#include "duoka/tune/peft_files.h"
#include "model/tensor_ranks.h"
#include "support/golden.h"

namespace duoka::tune {
namespace {

using namespace model::test;
using model::Decoder;
using model::Linear;

constexpr uint64_t seed = 11;

/// Adapters on all linears, B random too (cut from a random whole).
void adapt(Decoder& decoder, const LoraConfig& config) {
  for (Linear* linear : decoder.linears()) {
    auto lora = std::make_unique<LoraAdapter>(*linear, config, seed);
    lora->b().value.copy_(box_of(lora->b(), random_tensor(lora->b().name, lora->b().global_shape)));
    linear->attach(std::move(lora));
  }
}

RanksCase lora_case(const LoraConfig& config, const std::string& trained = "nothing of the base") {
  RanksCase test;
  test.source =
      random_source(at::kDouble, [=](const std::string& name) { return name.find(trained) != name.npos; });
  test.prepare = [=](Decoder& decoder) { adapt(decoder, config); };
  return test;
}

TEST(TensorParallelLora, IsOneRank) { expect_as_one_rank(lora_case({.rank = 3, .alpha = 6})); }

// A hidden size above a group of dropout's columns, so that the parts begin inside and behind one.
TEST(TensorParallelLora, IsOneRankWithDropout) {
  RanksCase test = lora_case({.rank = 3, .alpha = 6, .dropout = 0.3});
  test.config.intermediate_size = 150;
  test.config.head_dim = test.config.rope.head_dim = 10;
  expect_as_one_rank(test);
}

TEST(TensorParallelLora, IsOneRankOnFewTokens) {
  RanksCase test = lora_case({.rank = 3, .alpha = 6, .dropout = 0.3});
  test.streams = {stream_of({2}, 37), stream_of({1, 2}, 37), stream_of({9}, 37, 8)};
  expect_as_one_rank(test);
}

TEST(TensorParallelLora, IsOneRankWithBiasesAndTrainedEmbedding) {
  RanksCase test = lora_case({.rank = 2, .alpha = 2, .dropout = 0.1}, "embed_tokens");
  test.config.has_qkv_bias = test.config.has_output_bias = test.config.has_mlp_bias = true;
  test.config.has_qk_norm = test.config.tie_word_embeddings = true;
  expect_as_one_rank(test);
}

TEST(TensorParallelLora, IsOneRankInF32) {
  RanksCase test = lora_case({.rank = 3, .alpha = 6, .dropout = 0.3});
  test.source = random_source(at::kFloat, [](auto&) { return false; });
  test.tolerance = 1e-5;
  expect_as_one_rank(test);
}

std::map<std::string, Parameter*> by_name(Decoder& decoder) {
  std::map<std::string, Parameter*> parameters;
  for (Parameter* parameter : decoder.parameters()) parameters[parameter->name] = parameter;
  return parameters;
}

/// Parameters of a decoder are slices of another's, A or B by the way their Linear is split.
void expect_slices(Decoder& decoder, Decoder& whole) {
  const auto full = by_name(whole);
  for (const auto& [name, parameter] : by_name(decoder)) {
    ASSERT_TRUE(full.contains(name)) << name;
    EXPECT_EQ(parameter->global_shape, full.at(name)->global_shape) << name;
    EXPECT_TRUE(at::equal(parameter->value, box_of(*parameter, full.at(name)->value))) << name;
    EXPECT_EQ(parameter->value.storage().nbytes(), parameter->value.nbytes()) << name;
    if (name.find("lora") == name.npos) continue;
    const bool is_by_inputs = name.find("o_proj") != name.npos || name.find("down_proj") != name.npos;
    EXPECT_EQ(parameter->is_whole(), is_by_inputs != (name.find("lora_A") != name.npos)) << name;
  }
}

TEST(TensorParallelLora, StartsAsSlicesOfTheWhole) {
  for (const int64_t rank : {1, 3}) {
    Decoder whole = Decoder::random(small_config(), seed);
    for (Linear* linear : whole.linears())
      linear->attach(std::make_unique<LoraAdapter>(*linear, LoraConfig{.rank = rank}, seed));
    duoka::test::run_ranks(4, [&](const comm::Group& group) {
      Decoder decoder = Decoder::random(small_config(), seed,
                                        {.log = Log(1, 2), .tensor_axis = parallel::make_tensor_axis(group)});
      for (Linear* linear : decoder.linears())
        linear->attach(std::make_unique<LoraAdapter>(*linear, LoraConfig{.rank = rank}, seed));
      expect_slices(decoder, whole);
    });
  }
}

TEST(TensorParallelLora, AnAdapterOfAFileIsReadIntoSlices) {
  const auto base = testing::fixture("cases/models/tiny-llama");
  testing::TemporaryFolder folder;
  Decoder whole = Decoder::load(base);
  Selection selection = select(whole.config(), {.additional_target = {"embed_tokens"}});
  apply_selection(whole, selection, {.rank = 4}, seed);
  for (Parameter* parameter : whole.parameters())
    parameter->value.copy_(random_tensor(parameter->name, parameter->global_shape));
  write_peft_adapter(folder.path(), whole, selection, {.rank = 4}, base.string());

  const auto adapter = read_peft_adapter(folder.path(), whole.config());
  Decoder again = Decoder::load(base);
  apply_adapter(again, adapter, true, seed);
  duoka::test::run_ranks(2, [&](const comm::Group& group) {
    Decoder decoder =
        Decoder::load(base, {.log = Log(1, 2), .tensor_axis = parallel::make_tensor_axis(group)});
    apply_adapter(decoder, adapter, true, seed);
    expect_slices(decoder, again);
  });
}

TEST(TensorParallelLora, DeltaIsThatOfTheSlice) {
  Decoder whole = Decoder::random(small_config(), seed);
  adapt(whole, {.rank = 3});
  duoka::test::run_ranks(2, [&](const comm::Group& group) {
    Decoder decoder = Decoder::random(small_config(), seed,
                                      {.log = Log(1, 2), .tensor_axis = parallel::make_tensor_axis(group)});
    adapt(decoder, {.rank = 3});
    for (Linear* linear : decoder.linears()) {
      const auto wanted = box_of(linear->weight(), whole.linear(linear->module()).adapter()->delta());
      EXPECT_LT(relative_error(linear->adapter()->delta(), wanted), 1e-6) << linear->module();
    }
  });
}

}  // namespace
}  // namespace duoka::tune
