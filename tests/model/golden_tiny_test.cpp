// SPDX-License-Identifier: Apache-2.0
// Random tiny models of each family and each rope scaling against transformers (tools/record/tiny_models.py).
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/model_folder.h"
#include "duoka/model/decoder.h"
#include "duoka/model/weights.h"
#include "support/golden.h"

namespace duoka::model {
namespace {

using testing::Row;

// The folder's model with the case's keys put on top of its config.json.
Decoder load_case(const io::Json& entry) {
  const auto path = testing::fixture("models") / entry.at("model").get<std::string>();
  io::Json json = io::read_json_file(path / "config.json");
  for (const auto& [key, value] : entry.at("overrides").items()) json[key] = value;
  ModelConfig config = read_config(json, (path / "config.json").string());
  const auto source = open_weights(path, config);
  check_tensors(*source, config);
  Weights weights(*source, at::kFloat, at::kCPU);
  Decoder decoder(std::move(config), weights.parameters());
  decoder.set_trainable([](const std::string&) { return true; });
  return decoder;
}

class GoldenTiny : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }
  void SetUp() override {
    record_ = testing::golden("tiny_models.json");
    entry_ = record_.at("cases").at(GetParam());
    for (const auto& row : record_.at("rows")) rows_.emplace_back(row);
  }
  int64_t num_trained() const { return testing::stream_of(rows_).num_trained; }
  // Dynamic scaling goes by the length of a row; transformers took each row by itself too.
  std::vector<std::vector<Row>> streams() const { return {{rows_[0]}, {rows_[1], rows_[2]}}; }

  io::Json record_, entry_;
  std::vector<Row> rows_;
};

TEST_P(GoldenTiny, Logits) {
  Decoder decoder = load_case(entry_);
  for (size_t i = 0; i < rows_.size(); ++i) {
    const auto stream = testing::stream_of({rows_[i]});
    const int64_t n = stream.num_tokens();
    const auto found = decoder.logits(stream, at::tensor({int64_t{0}, n / 2, n - 1}, at::kLong));
    for (size_t at = 0; at < 3; ++at) {
      const auto wanted = at::tensor(entry_.at("logits")[i][at].get<std::vector<float>>());
      const double difference = (found[static_cast<int64_t>(at)] - wanted).abs().max().item<double>();
      EXPECT_LT(difference, 2e-4) << "row " << i << " position " << at;
    }
  }
}

TEST_P(GoldenTiny, LossAndGradients) {
  Decoder decoder = load_case(entry_);
  double loss = 0;
  for (const auto& rows : streams())
    loss += testing::forward_backward(decoder.chain(), testing::stream_of(rows), num_trained());
  const double wanted = entry_.at("loss");
  EXPECT_NEAR(loss, wanted, 1e-5 * wanted);
  const auto& gradients = entry_.at("gradients");
  EXPECT_EQ(decoder.parameters().size(), gradients.size());
  for (const Parameter* parameter : decoder.parameters()) {
    const auto g = parameter->grad.to(at::kDouble).flatten();
    const double norm = gradients.at(parameter->name)[0], probe = gradients.at(parameter->name)[1];
    EXPECT_NEAR(g.norm().item<double>(), norm, 1e-4 * norm) << parameter->name;
    const auto cosines = at::arange(g.numel(), at::kDouble).cos();
    // The probe may be small beside the norm, so its error is measured by the norm.
    EXPECT_NEAR(g.dot(cosines).item<double>(), probe, 1e-4 * norm * std::sqrt(static_cast<double>(g.numel())))
        << parameter->name;
  }
}

// But for dynamic scaling, which turns earlier keys anew for each length; a cache cannot.
class GoldenTinyCached : public GoldenTiny {};

TEST_P(GoldenTinyCached, KeyValueCacheGivesTheSameLogits) {
  Decoder decoder = load_case(entry_);
  const auto& ids = rows_[0].ids;
  const auto all = at::tensor(at::ArrayRef<int32_t>(ids)).to(at::kLong);
  const auto wanted = decoder.logits(testing::stream_of({rows_[0]}));
  auto cache = decoder.make_cache();
  int64_t read = 0;
  for (const int64_t count :
       {5, 1, 1, 7, 1, 8}) {  // a prompt, single tokens, and pieces longer than a window
    const auto logits = decoder.logits_cached(all.narrow(0, read, count), cache);
    read += count;
    EXPECT_LT((logits - wanted[read - 1]).abs().max().item<double>(), 1e-4) << "after " << read;
  }
  EXPECT_EQ(read, static_cast<int64_t>(ids.size()));
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTiny,
                         ::testing::Values("llama", "mistral", "qwen2", "qwen3", "linear", "dynamic",
                                           "llama3", "yarn", "yarn_options"),
                         [](const auto& tested) { return tested.param; });
INSTANTIATE_TEST_SUITE_P(Cases, GoldenTinyCached,
                         ::testing::Values("llama", "mistral", "qwen2", "qwen3", "linear", "llama3", "yarn",
                                           "yarn_options"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace duoka::model
