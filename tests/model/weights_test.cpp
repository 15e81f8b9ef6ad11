// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/weights.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/model/decoder.h"
#include "model/weights_gguf.h"
#include "support/golden.h"

namespace duoka::model {
namespace {

const auto model_folder = [] { return testing::fixture("cases/models/tiny-llama"); };

TEST(GgufNames, BecomeHuggingFaces) {
  EXPECT_EQ(hugging_face_name("token_embd.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(hugging_face_name("output.weight"), "lm_head.weight");
  EXPECT_EQ(hugging_face_name("blk.12.attn_q.weight"), "model.layers.12.self_attn.q_proj.weight");
  EXPECT_EQ(hugging_face_name("blk.0.attn_k.bias"), "model.layers.0.self_attn.k_proj.bias");
  EXPECT_EQ(hugging_face_name("blk.3.ffn_norm.weight"), "model.layers.3.post_attention_layernorm.weight");
  EXPECT_EQ(hugging_face_name("blk.3.ffn_gate_exps.weight"), "blk.3.ffn_gate_exps.weight")
      << "unknown: stays";
  EXPECT_EQ(hugging_face_name("blk."), "blk.");
  EXPECT_EQ(hugging_face_name("x"), "x");
}

TEST(GgufRows, OrderOfCaseG07) {
  const auto table =
      io::read_json_file(testing::fixture("cases/G07_expected.json")).at("gguf_row_i_is_hf_row");
  for (const auto& [name, num_heads] : {std::pair{"attn_q (4 heads)", 4}, {"attn_k (2 heads)", 2}}) {
    const auto stored = at::tensor(table.at(name).get<std::vector<int64_t>>());  // holds the row it came from
    const auto restored = undo_paired_rows(stored.unsqueeze(1), num_heads).squeeze(1);
    EXPECT_TRUE(restored.equal(at::arange(stored.numel()))) << name;
  }
}

// The same weights as a folder (bf16) and as a GGUF file (f32, rows in pairs for llama).
class FolderAndGguf : public ::testing::TestWithParam<const char*> {};

TEST_P(FolderAndGguf, HoldTheSame) {
  const auto folder = testing::fixture("models") / GetParam();
  auto file = folder;
  file += ".gguf";
  ModelConfig of_file = read_config(file);
  const ModelConfig of_folder = read_config(folder);
  EXPECT_EQ(of_file.family, of_folder.family);
  EXPECT_EQ(of_file.head_dim, of_folder.head_dim);
  EXPECT_EQ(of_file.vocab_size, of_folder.vocab_size);
  EXPECT_EQ(of_file.has_qkv_bias, of_folder.has_qkv_bias);
  EXPECT_EQ(of_file.tie_word_embeddings, of_folder.tie_word_embeddings);
  EXPECT_EQ(of_file.rope.theta, of_folder.rope.theta);
  EXPECT_EQ(of_file.eos_ids, of_folder.eos_ids);
  const auto from_file = open_weights(file, of_file), from_folder = open_weights(folder, of_folder);
  check_tensors(*from_file, of_file);
  EXPECT_EQ(from_file->names(), from_folder->names());
  for (const auto& name : from_folder->names()) {
    EXPECT_EQ(from_folder->dtype(name), at::kBFloat16);
    EXPECT_FALSE(from_file->is_quantized(name));
    EXPECT_TRUE(from_file->read(name).equal(from_folder->read(name).to(at::kFloat))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FolderAndGguf, ::testing::Values("golden-llama", "golden-qwen2"));

TEST(CheckTensors, NamesWhatIsWrong) {
  ModelConfig config = read_config(model_folder());
  const auto source = open_weights(model_folder(), config);
  check_tensors(*source, config);
  const auto error = [&](const ModelConfig& changed) {
    return testing::message_of<FormatError>([&] { check_tensors(*source, changed); });
  };
  ModelConfig wider = config;
  wider.intermediate_size = 65;
  EXPECT_NE(error(wider).find("gate_proj.weight has shape [64, 32]; the config wants [65, 32]"),
            std::string::npos);
  ModelConfig deeper = config;
  deeper.num_layers = 3;
  deeper.windows.push_back(0);
  EXPECT_NE(error(deeper).find("no tensor model.layers.2."), std::string::npos);
  ModelConfig shallower = config;
  shallower.num_layers = 1;
  const auto message = error(shallower);
  EXPECT_NE(message.find("9 tensors have no place"), std::string::npos) << message;
  EXPECT_NE(message.find("model.layers.1."), std::string::npos);
}

TEST(Weights, ConvertsAndCuts) {
  ModelConfig config = read_config(model_folder());
  const auto source = open_weights(model_folder(), config);
  Weights weights(*source, at::kBFloat16, at::kCPU);
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const auto whole = weights.take({name, {32, 64}});
  EXPECT_EQ(whole.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(whole.equal(source->read(name).to(at::kBFloat16)));
  const auto rows = weights.take({name, {32, 64}, Slice{0, 8, 16}}),
             columns = weights.take({name, {32, 64}, Slice{1, 60, 4}});
  EXPECT_TRUE(rows.equal(whole.narrow(0, 8, 16)));
  EXPECT_TRUE(columns.equal(whole.narrow(1, 60, 4)));
  EXPECT_EQ(columns.storage().nbytes(), static_cast<size_t>(32 * 4 * 2)) << "the rest is not kept alive";
  EXPECT_THROW(weights.take({name, {32, 64}, Slice{1, 60, 5}}), StateError);
  EXPECT_THROW(weights.take({name, {64, 32}}), FormatError);
  EXPECT_THROW(weights.take({"model.nothing.weight", {1}}), FormatError);
}

TEST(Weights, DtypesOfFiles) {
  for (const auto dtype : {io::DType::f32, io::DType::f16, io::DType::bf16, io::DType::f64})
    EXPECT_EQ(file_dtype(scalar_type(dtype, "x")), dtype);
  EXPECT_THROW(scalar_type(io::DType::i32, "x"), FormatError);
  EXPECT_THROW(file_dtype(at::kInt), StateError);
}

}  // namespace
}  // namespace duoka::model
