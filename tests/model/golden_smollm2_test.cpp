// SPDX-License-Identifier: Apache-2.0
// SmolLM2-135M-Instruct, read from its GGUF file, against transformers (tools/record/smollm2.py).
#include <gtest/gtest.h>

#include "duoka/model/decoder.h"
#include "duoka/model/generate.h"
#include "support/golden.h"

namespace duoka::model {
namespace {

using testing::Row;

// Loaded once for all tests: half a gigabyte.
class SmolLm2 : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto path = testing::asset("SmolLM2-135M-Instruct.Q4_1.gguf");
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path << "; scripts/demo fetches it";
    if (!decoder_) decoder_ = std::make_unique<Decoder>(Decoder::load(path));
    record_ = testing::golden("smollm2.json");
  }
  static void TearDownTestSuite() { decoder_.reset(); }

  static inline std::unique_ptr<Decoder> decoder_;
  io::Json record_;
};

TEST_F(SmolLm2, Config) {
  const ModelConfig& config = decoder_->config();
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.num_layers, 30);
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.rope.theta, 100000);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_EQ(config.eos_ids, std::vector<int64_t>{2});
  EXPECT_EQ(num_parameters(config), 134'515'008);
}

TEST_F(SmolLm2, Logits) {
  for (const auto& [name, prompt] : record_.at("prompts").items()) {
    const auto stream = testing::stream_of({Row(prompt)});
    for (const auto& point : prompt.at("points")) {
      const auto position = point.at("position").get<int64_t>();
      const auto logits = decoder_->logits(stream, at::full({1}, position, at::kLong))[0];
      const auto ids = at::tensor(point.at("ids").get<std::vector<int64_t>>());
      const auto wanted = at::tensor(point.at("logits").get<std::vector<float>>());
      EXPECT_LT((logits.index_select(0, ids) - wanted).abs().max().item<double>(), 2e-4)
          << name << " position " << position;
      EXPECT_EQ(logits.argmax().item<int64_t>(), point.at("top")[0].get<int64_t>()) << name;
    }
  }
}

TEST_F(SmolLm2, Losses) {
  for (const auto& [name, text] : record_.at("losses").items()) {
    Row row(text);
    row.labels = row.ids;
    const auto stream = testing::stream_of({row});
    const double loss = decoder_->loss_sum(stream) / static_cast<double>(stream.num_trained);
    const double wanted = text.at("loss");
    EXPECT_NEAR(loss, wanted, 1e-5 * wanted) << name;
  }
}

TEST_F(SmolLm2, GreedyReplies) {
  GenerateOptions options;
  options.max_new_tokens = record_.at("max_new_tokens");
  const int64_t stop = record_.at("stop_id");
  options.stop_ids = {stop};
  for (const auto& [name, ids] : record_.at("greedy").items()) {
    const auto prompt = record_.at("prompts").at(name).at("ids").get<std::vector<int64_t>>();
    const auto reply = generate(*decoder_, prompt, options);
    auto found = reply.ids;
    if (reply.reason == StopReason::stop_id) found.push_back(reply.stop_id);  // transformers keeps it
    EXPECT_EQ(found, ids.get<std::vector<int64_t>>()) << name;
  }
}

}  // namespace
}  // namespace duoka::model
