// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "model/cross_entropy.h"
#include "model/tensor_ranks.h"
#include "support/golden.h"

namespace duoka::model {
namespace {

using namespace test;
using ::testing::HasSubstr;

TEST(TensorParallel, IsOneRankInF64) { expect_as_one_rank({}); }

TEST(TensorParallel, IsOneRankWithATiedHead) {
  RanksCase test;
  test.config.tie_word_embeddings = true;
  expect_as_one_rank(test);
}

TEST(TensorParallel, IsOneRankWithBiasesAndNormsOfHeads) {
  RanksCase test;
  test.config.has_qkv_bias = test.config.has_output_bias = test.config.has_mlp_bias = true;
  test.config.has_qk_norm = true;
  expect_as_one_rank(test);
}

TEST(TensorParallel, IsOneRankInF32) {
  RanksCase test;
  test.source = random_source(at::kFloat);
  test.tolerance = 1e-5;
  expect_as_one_rank(test);
}

// Some ranks then have no token between the layers, or no trained one.
TEST(TensorParallel, IsOneRankOnFewTokens) {
  RanksCase test;
  test.streams = {stream_of({1, 2}, 37), stream_of({2}, 37), stream_of({5}, 37, 2), stream_of({9}, 37, 8)};
  expect_as_one_rank(test);
}

TEST(TensorParallel, IsOneRankWherePartsAreFrozen) {
  for (const std::string trained :
       {"layers.1.mlp", "layers.0.self_attn.o_proj", "model.norm", "layernorm", "embed"}) {
    SCOPED_TRACE(trained);
    RanksCase test;
    test.source =
        random_source(at::kDouble, [=](const std::string& name) { return name.find(trained) != name.npos; });
    test.streams.pop_back();
    expect_as_one_rank(test);
  }
}

TEST(TensorParallel, NothingTrainedIsNoLoss) {
  duoka::test::run_ranks(2, [](const comm::Group& group) {
    Decoder decoder(small_config(), random_source(), parallel::make_tensor_axis(group));
    const Stream stream = stream_of({5}, 37, 5);
    const Outcome outcome = run(decoder, stream, 1, group);
    EXPECT_EQ(outcome.loss, 0);
    EXPECT_TRUE(outcome.dx.eq(0).all().item<bool>());
  });
}

// Only chunks of one row, so that ranks whose parts of the vocabulary differ must still make equally many.
TEST(TensorParallel, ChunksOfTheHeadAreEquallyManyOnAllRanks) {
  const Stream stream = stream_of({9}, 37, 2);
  const auto source = random_source();
  const auto x = random_tensor("x", {9, 12});
  const auto head_of = [&](int64_t chunk_bytes, const std::shared_ptr<const TensorAxis>& axis) {
    return Head(RmsNorm(source({"norm", {12}}), 1e-6), source({"head", {37, 12}, axis->slice(0, 37)}),
                chunk_bytes, axis);
  };
  Head whole = head_of(Head::default_chunk_bytes, solo_tensor_axis());
  const auto wanted = whole.loss_and_gradient(x, stream, 1);
  for (const int64_t chunk_bytes : {1, 2 * 10 * 8, 3 * 8 * 8})
    duoka::test::run_ranks(4, [&](const comm::Group& group) {
      const auto axis = parallel::make_tensor_axis(group);
      Head head = head_of(chunk_bytes, axis);
      const auto [begin, count] = axis->part(9);
      const auto found = head.loss_and_gradient(x.narrow(0, begin, count), stream, 1);
      EXPECT_NEAR(found.loss_sum / wanted.loss_sum, group.rank() == 0 ? 1 : 0, 1e-12);
      EXPECT_LT(relative_error(axis->gather_tokens(found.dx, stream), wanted.dx), 1e-12);
      EXPECT_LT(relative_error(whole_gradient(head.weight(), group), whole.weight().grad), 1e-12);
    });
}

TEST(TensorParallel, CrossEntropyOfSpreadColumnsIsThatOfAll) {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto logits = 5 * random_tensor("logits", {40, 131}, dtype);
    const auto targets = at::arange(40, at::kLong) * 3;
    auto whole = logits.clone();
    const double loss = cross_entropy_backward_(whole, targets, 0.3).item<double>();
    const double tolerance = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 2e-6 : 1e-2;
    duoka::test::run_ranks(3, [&](const comm::Group& group) {
      const auto axis = parallel::make_tensor_axis(group);
      const auto [begin, count] = axis->part(131);
      auto own = logits.narrow(1, begin, count).contiguous();
      const LogitsPart part{*axis, begin, 131};
      EXPECT_NEAR(cross_entropy(own, targets, part).item<double>() / loss, 1, 1e-6);
      EXPECT_NEAR(cross_entropy_backward_(own, targets, 0.3, part).item<double>() / loss, 1, 1e-6);
      EXPECT_LT(relative_error(own, whole.narrow(1, begin, count)), tolerance) << dtype;
      EXPECT_THROW(cross_entropy(own, targets + 131, part), StateError);
    });
  }
}

// Token traffic of a block whose weights are frozen: gather and scatter for attention and MLP, there and
// back.
TEST(TensorParallel, ABlockSendsEachTokenOnceEachWay) {
  duoka::test::run_ranks(2, [](const comm::Group& group) {
    const auto axis = parallel::make_tensor_axis(group);
    const auto rope = std::make_shared<const Rope>(small_config().rope);
    for (const bool is_trained : {false, true}) {
      Block block(random_source(at::kFloat, [=](auto&) { return is_trained; }), "b", small_config().block(0),
                  rope, axis);
      const Stream stream = stream_of({8}, 37);
      const auto x = random_tensor("x", {4, 12}, at::kFloat);
      Saved saved;
      group.traffic().reset();
      block.forward(x, stream, saved);
      const int64_t own = 4 * 12 * 4, all = 2 * own;
      EXPECT_EQ(group.traffic().count(comm::Operation::all_gather), (comm::Traffic::Count{2, 2 * own}));
      EXPECT_EQ(group.traffic().count(comm::Operation::reduce_scatter), (comm::Traffic::Count{2, 2 * all}));
      group.traffic().reset();
      block.backward(x, stream, saved);
      const int64_t num_gathers = is_trained ? 4 : 2;  // the inputs again, where a weight needs them
      EXPECT_EQ(group.traffic().count(comm::Operation::all_gather),
                (comm::Traffic::Count{num_gathers, num_gathers * own}));
      EXPECT_EQ(group.traffic().count(comm::Operation::reduce_scatter), (comm::Traffic::Count{2, 2 * all}));
    }
  });
}

TEST(TensorParallel, WhatNeedsAWholeModelSaysSo) {
  duoka::test::run_ranks(2, [](const comm::Group& group) {
    Decoder decoder(small_config(), random_source(), parallel::make_tensor_axis(group));
    EXPECT_THROW(decoder.logits(stream_of({3}, 37)), StateError);
    auto cache = decoder.make_cache();
    EXPECT_THROW(decoder.logits_cached(at::tensor({1, 2}, at::kLong), cache), StateError);
  });
}

TEST(TensorParallel, SizesAreCheckedBeforeAnythingIsLoaded) {
  ModelConfig config = small_config();
  const auto message = [&](int64_t size) {
    return testing::message_of<ConfigError>([&] { check_tensor_parallel(config, size); });
  };
  for (const int64_t size : {1, 2, 4}) EXPECT_NO_THROW(check_tensor_parallel(config, size));
  config.num_heads = 9;
  config.num_kv_heads = 3;
  EXPECT_EQ(message(2),
            "tensor_parallel_size = 2: 9 attention heads and 3 key-value heads; sizes that work: 1, 3");
  EXPECT_THAT(message(9), HasSubstr("sizes that work: 1, 3"));
  EXPECT_THAT(message(0), HasSubstr("sizes that work: 1, 3"));
  config.num_heads = config.num_kv_heads = 16;
  config.intermediate_size = 9;  // 16 ranks: one each for nine of them
  EXPECT_THAT(message(16),
              HasSubstr("intermediate_size 9 and vocab_size 37 leave a rank without any; sizes that work: "
                        "1, 2"));
}

/// Every slice of every parameter lies in the whole where its offset says, and together they are all of it.
void expect_slices_of(Decoder& whole, Decoder& decoder, const comm::Group& group) {
  for (Parameter* parameter : decoder.parameters()) {
    const Parameter& full = *whole.find(parameter->name);
    EXPECT_EQ(parameter->global_shape, full.global_shape) << parameter->name;
    EXPECT_EQ(parameter->has_weight_decay, full.has_weight_decay);
    EXPECT_TRUE(at::equal(parameter->value, box_of(*parameter, full.value))) << parameter->name;
    EXPECT_EQ(parameter->value.storage().nbytes(), parameter->value.nbytes())
        << "no more memory than the slice";
    at::Tensor covered = at::zeros(full.global_shape, at::kInt);
    box_of(*parameter, covered).fill_(1);
    comm::all_reduce(covered, comm::Op::sum, group);
    EXPECT_TRUE(covered.eq(parameter->is_whole() ? group.size() : 1).all().item<bool>()) << parameter->name;
  }
}

TEST(TensorParallel, LoadsSlicesOfAFolderAndOfAGguf) {
  for (const char* name :
       {"models/golden-qwen2", "models/golden-llama.gguf", "cases/models/tiny-llama-tied"}) {
    SCOPED_TRACE(name);
    Decoder whole = Decoder::load(testing::fixture(name));
    duoka::test::run_ranks(2, [&](const comm::Group& group) {
      Decoder decoder = Decoder::load(testing::fixture(name),
                                      {.log = Log(1, 2), .tensor_axis = parallel::make_tensor_axis(group)});
      expect_slices_of(whole, decoder, group);
    });
  }
}

// The parameter shown and the layer's own share the tensor, so that its memory can be given back.
TEST(TensorParallel, EachParameterIsShownBeforeTheNextIsRead) {
  const auto axis_of = [](const comm::Group& group) { return parallel::make_tensor_axis(group); };
  duoka::test::run_ranks(2, [&](const comm::Group& group) {
    std::map<std::string, at::Tensor> kept;
    LoadOptions options{.log = Log(1, 2), .tensor_axis = axis_of(group)};
    options.on_parameter = [&](Parameter& parameter) {
      kept.emplace(parameter.name, parameter.value.clone());
      parameter.value.zero_();
    };
    Decoder decoder = Decoder::load(testing::fixture("models/golden-qwen3"), options);
    for (Parameter* parameter : decoder.parameters()) {
      EXPECT_TRUE(parameter->value.eq(0).all().item<bool>()) << parameter->name;
      parameter->value.copy_(kept.at(parameter->name));
    }
    Decoder same = Decoder::load(testing::fixture("models/golden-qwen3"),
                                 {.log = Log(1, 2), .tensor_axis = axis_of(group)});
    const Stream stream = stream_of({7}, 37);
    EXPECT_EQ(decoder.loss_sum(stream), same.loss_sum(stream));
  });
}

TEST(TensorParallel, RandomWeightsAreSlicesOfTheWhole) {
  Decoder whole = Decoder::random(small_config(), 3);
  duoka::test::run_ranks(4, [&](const comm::Group& group) {
    Decoder decoder = Decoder::random(small_config(), 3,
                                      {.log = Log(1, 2), .tensor_axis = parallel::make_tensor_axis(group)});
    expect_slices_of(whole, decoder, group);
  });
}

}  // namespace
}  // namespace duoka::model
