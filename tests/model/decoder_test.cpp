// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/decoder.h"

#include <algorithm>
#include <cstdlib>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "support/golden.h"

namespace duoka::model {
namespace {

using testing::Row;
using testing::stream_of;

std::vector<Row> rows7() {
  std::vector<Row> rows;
  const auto expected = io::read_json_file(testing::fixture("cases/rows7_expected.json"));
  for (const auto& row : expected.at("rows")) rows.emplace_back(row);
  return rows;
}

double mean_loss(Decoder& decoder, const Stream& stream) {
  return decoder.loss_sum(stream) / static_cast<double>(stream.num_trained);
}

class TinyLlama : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }
  Decoder decoder_ = Decoder::load(testing::fixture("cases/models/tiny-llama"));
};

TEST_F(TinyLlama, LossOfEachRow) {
  const auto expected = io::read_json_file(testing::fixture("cases/rows7_expected.json")).at("rows");
  const auto rows = rows7();
  ASSERT_EQ(rows.size(), 7u);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto stream = stream_of({rows[i]});
    EXPECT_EQ(stream.num_trained, expected[i].at("trained_tokens").get<int64_t>());
    const double wanted = expected[i].at("nll_sum");
    EXPECT_NEAR(decoder_.loss_sum(stream), wanted, 1e-5 * wanted) << "row " << i + 1;
  }
}

TEST_F(TinyLlama, CaseC04PackedRowsDoNotSeeEachOther) {
  const auto rows = rows7();
  const auto stream = stream_of({rows[1], rows[3]});
  EXPECT_EQ(stream.num_trained, 45);
  EXPECT_NEAR(mean_loss(decoder_, stream), 6.935228, 7e-5);
}

TEST_F(TinyLlama, CaseC05LabelsAreShiftedOnce) {
  EXPECT_NEAR(mean_loss(decoder_, stream_of({rows7()[1]})), 6.786177, 7e-5);
}

/// Rows of a batch that the reference padded on the right, without the padding.
std::vector<Row> unpadded(const io::Json& batch) {
  std::vector<Row> rows;
  for (size_t i = 0; i < batch.at("input_ids").size(); ++i) {
    Row row(io::Json{{"ids", batch["input_ids"][i]}, {"labels", batch["labels"][i]}});
    while (row.labels.back() < 0) {
      row.labels.pop_back();
      row.ids.pop_back();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// The end of each row is trained although its id is that of the reference's padding.
TEST_F(TinyLlama, CaseB02EosIsPartOfTheLoss) {
  const auto expected = io::read_json_file(testing::fixture("cases/B02_expected.json"));
  const auto stream = stream_of(unpadded(expected));
  EXPECT_EQ(stream.num_trained, expected.at("trained_tokens"));
  EXPECT_NEAR(mean_loss(decoder_, stream), expected.at("loss"), 7e-5);  // without them 7.083
}

TEST_F(TinyLlama, CaseB07LossOfTheAnswersAlone) {
  const auto expected = io::read_json_file(testing::fixture("cases/B07_expected.json"));
  Row row(expected);
  EXPECT_EQ(stream_of({row}).num_trained, expected.at("trained_tokens"));
  EXPECT_NEAR(mean_loss(decoder_, stream_of({row})), expected.at("loss"), 7e-5);
  row.labels = row.ids;
  EXPECT_NEAR(mean_loss(decoder_, stream_of({row})), expected.at("loss_if_prompt_trained_too"), 7e-5);
}

TEST_F(TinyLlama, PartsByName) {
  const auto linears = decoder_.linears();
  const auto wanted = linear_modules(decoder_.config());
  ASSERT_EQ(linears.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(linears[i]->module(), wanted[i].name);
    EXPECT_EQ(&decoder_.linear(wanted[i].name), linears[i]);
  }
  EXPECT_THROW(decoder_.linear("model.layers.9.mlp.up_proj"), StateError);
  for (const auto& [name, shape] : tensors_of(decoder_.config())) {
    ASSERT_NE(decoder_.find(name), nullptr) << name;
    EXPECT_EQ(decoder_.find(name)->value.sizes(), at::IntArrayRef(shape)) << name;
  }
  EXPECT_EQ(decoder_.find("model.norm.bias"), nullptr);
}

TEST_F(TinyLlama, TrainableByName) {
  decoder_.set_trainable([](const std::string& name) { return name.ends_with("norm.weight"); });
  for (const Parameter* parameter : decoder_.parameters())
    EXPECT_EQ(parameter->is_trainable, parameter->name.ends_with("norm.weight")) << parameter->name;
}

TEST_F(TinyLlama, MovingKeepsPointers) {
  Parameter* before = decoder_.find("model.norm.weight");
  Decoder moved = std::move(decoder_);
  EXPECT_EQ(moved.find("model.norm.weight"), before);
  EXPECT_NEAR(mean_loss(moved, stream_of({rows7()[1]})), 6.786177, 7e-5);
}

TEST_F(TinyLlama, HalfPrecisionIsNearF32) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    Decoder half = Decoder::load(testing::fixture("cases/models/tiny-llama"), {.dtype = dtype});
    EXPECT_EQ(half.dtype(), dtype);
    const auto stream = stream_of({rows7()[1]});
    EXPECT_NEAR(mean_loss(half, stream), 6.786177, dtype == at::kHalf ? 0.01 : 0.07);
  }
}

TEST(RandomDecoder, DependsOnSeedAndNameAlone) {
  at::set_num_threads(1);
  ModelConfig config = read_config(testing::fixture("cases/models/tiny-llama"));
  Decoder first = Decoder::random(config, 7), again = Decoder::random(config, 7),
          other = Decoder::random(config, 8);
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  EXPECT_TRUE(first.find(name)->value.equal(again.find(name)->value));
  EXPECT_FALSE(first.find(name)->value.equal(other.find(name)->value));
  EXPECT_FALSE(first.find(name)->value.equal(first.find("model.layers.0.mlp.up_proj.weight")->value));
  const auto values = first.find("model.embed_tokens.weight")->value;  // 10240 numbers
  EXPECT_NEAR(values.mean().item<double>(), 0, 1e-3);
  EXPECT_NEAR(values.std().item<double>(), config.initializer_range, 1e-3);
  EXPECT_TRUE(first.find("model.norm.weight")->value.eq(1).all().item<bool>());
}

TEST(TiedDecoder, HeadIsTheEmbedding) {
  Decoder decoder = Decoder::load(testing::fixture("cases/models/tiny-llama-tied"));
  EXPECT_EQ(decoder.find("lm_head.weight"), decoder.find("model.embed_tokens.weight"));
  EXPECT_EQ(&decoder.head().weight(), &decoder.embedding().weight());
}

/// Some layers of a tiny model, and the names that its source was asked for.
struct Stage {
  std::vector<std::string> read;
  Decoder decoder;
  Stage(const std::string& model, std::vector<LayerRange> layers)
      : decoder(Decoder::load(testing::fixture("cases/models/" + model),
                              {.layers = std::move(layers), .on_parameter = [this](Parameter& parameter) {
                                 read.push_back(parameter.name);
                               }})) {}
};

TEST(DecoderStages, HoldAndReadOnlyTheirLayers) {
  Decoder whole = Decoder::load(testing::fixture("cases/models/tiny-llama"));
  Stage first("tiny-llama", {{0, 1}, {2, 3}}), last("tiny-llama", {{1, 2}, {3, 4}});
  EXPECT_EQ(first.decoder.chain().layers.size(), 2u);
  EXPECT_EQ(first.decoder.chain().objective, nullptr);
  EXPECT_EQ(last.decoder.chain().layers.size(), 1u);
  EXPECT_NE(last.decoder.chain().objective, nullptr);
  EXPECT_EQ(first.decoder.num_blocks(), 2);
  std::vector<std::string> all = first.read;
  all.insert(all.end(), last.read.begin(), last.read.end());
  std::ranges::sort(all);
  std::vector<std::string> wanted;
  for (const auto& [name, shape] : tensors_of(whole.config())) wanted.push_back(name);
  std::ranges::sort(wanted);
  EXPECT_EQ(all, wanted);  // each once

  EXPECT_EQ(first.decoder.linears().size(), 7u);
  EXPECT_EQ(first.decoder.find_linear("model.layers.0.mlp.up_proj"), nullptr);
  EXPECT_NE(first.decoder.find_linear("model.layers.1.mlp.up_proj"), nullptr);
  EXPECT_THROW(first.decoder.find_linear("model.layers.2.mlp.up_proj"), StateError);
  EXPECT_THROW(first.decoder.linear("model.layers.0.mlp.up_proj"), StateError);
  EXPECT_EQ(first.decoder.find("model.norm.weight"), nullptr);
  EXPECT_NO_THROW(first.decoder.embedding());
  EXPECT_NO_THROW(first.decoder.block(1));
  EXPECT_THROW(first.decoder.block(0), StateError);
  EXPECT_THROW(first.decoder.head(), StateError);
  EXPECT_THROW(last.decoder.embedding(), StateError);
  EXPECT_EQ(last.decoder.dtype(), at::kFloat);
  auto cache = last.decoder.make_cache();
  EXPECT_THROW(last.decoder.logits_cached(at::zeros({1}, at::kLong), cache), StateError);
  EXPECT_THROW(last.decoder.loss_sum(stream_of({rows7()[1]})), StateError);
}

TEST(DecoderStages, InOrderMakeUpTheModel) {
  Decoder whole = Decoder::load(testing::fixture("cases/models/tiny-llama-tied"));
  Stage first("tiny-llama-tied", {{0, 2}}), last("tiny-llama-tied", {{2, 4}});
  const Stream stream = stream_of({rows7()[1]});
  at::Tensor x;
  Saved nothing(false);
  for (Stage* stage : {&first, &last})
    for (const auto& layer : stage->decoder.chain().layers) x = layer->forward(x, stream, nothing);
  EXPECT_EQ(last.decoder.chain().objective->loss_sum(x, stream), whole.loss_sum(stream));
  Parameter* copy = last.decoder.find("lm_head.weight");
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->name, "model.embed_tokens.weight");
  EXPECT_EQ(copy, &last.decoder.head().weight());
}

TEST(DecoderStages, RangesThatAreNoneAreRefused) {
  for (const std::vector<LayerRange>& layers :
       {std::vector<LayerRange>{{0, 5}}, {{1, 1}}, {{2, 3}, {0, 1}}, {{-1, 2}}})
    EXPECT_THROW(Stage("tiny-llama", layers), StateError);
}

// Case F08: folders whose index, shards and head disagree, made as the case's script makes them.
class CaseF08 : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    static const bool is_made = make_folders();
    if (!is_made) GTEST_SKIP() << "python3 (standard library) is needed to make the folders";
  }
  static bool make_folders() {
    const auto script = testing::fixture("cases/F08_make_folders.py");
    const std::string command =
        "python3 '" + script.string() + "' '" + folder().path().string() + "' > /dev/null";
    return std::system(command.c_str()) == 0;
  }
  static const testing::TemporaryFolder& folder() {
    static const testing::TemporaryFolder made;
    return made;
  }
  double loss(const char* name) {
    Decoder decoder = Decoder::load(folder() / name);
    // "the cat" -> "sat" in the template of the cases: their first row's first turn.
    Row row(
        std::vector<int32_t>{0, 3, 309, 203, 308, 282, 267, 4, 3, 69, 305, 288, 264, 88, 203, 87, 267, 4});
    for (size_t i = 15; i < row.ids.size(); ++i) row.labels[i] = row.ids[i];
    return mean_loss(decoder, stream_of({row}));
  }
  std::string error(const char* name) {
    return testing::message_of<FormatError>([&] { Decoder::load(folder() / name); });
  }
};

TEST_F(CaseF08, GoodFoldersGiveTheLoss) {
  for (const char* name : {"ok_sharded_tied", "tied_but_index_lists_lm_head"})
    EXPECT_NEAR(loss(name), 8.632108, 9e-4) << name;
}

TEST_F(CaseF08, BadFoldersNameTheFileOrTensor) {
  EXPECT_NE(error("missing_shard").find("model-00002-of-00002.safetensors"), std::string::npos);
  EXPECT_NE(error("index_names_unknown_file").find("model-00003-of-00002.safetensors"), std::string::npos);
  EXPECT_NE(error("untied_without_lm_head").find("lm_head.weight"), std::string::npos);
  EXPECT_FALSE(error("escape_path_in_index").empty());
}

TEST_F(CaseF08, MixedLayoutsAreRefusedOrReadWhole) {
  for (const char* name : {"stale_single_file_beside_shards", "shards_without_index"}) {
    try {
      EXPECT_NEAR(loss(name), 8.632108, 9e-4) << name;
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos);  // names the folder
    }
  }
}

}  // namespace
}  // namespace duoka::model
