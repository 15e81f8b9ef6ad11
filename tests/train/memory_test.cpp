// SPDX-License-Identifier: Apache-2.0
// Tensors of each class on each rank, as the allocator counts them, beside the formulas of
// parallel::estimate().
#include <cmath>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/run_duoka.h"
#include "support/test_files.h"

namespace duoka::testing {
namespace {

struct Case {
  std::string name;
  int num_ranks;
  std::vector<std::string> keys;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Memory : public ::testing::TestWithParam<Case> {};

TEST_P(Memory, IsThatOfTheFormulas) {
  const Case& c = GetParam();
  std::vector<std::string> words{fixture("cases/models/tiny-llama-tied").string(), "tokens=64",
                                 "accumulation=2"};
  words.insert(words.end(), c.keys.begin(), c.keys.end());
  words.insert(words.end(), {"--cards", std::to_string(c.num_ranks)});
  const std::string child =
      std::filesystem::path(duoka_binary()).replace_filename("train_memory_child").string();
  const Outcome outcome = run_duoka(words, {.program = child});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  std::istringstream lines(outcome.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto found = nlohmann::json::parse(line);
    for (const char* of : {"parameters", "gradients", "optimizer", "activations"}) {
      const double measured = found.at(of).at(0), wanted = found.at(of).at(1);
      EXPECT_GT(wanted, 0) << of;
      EXPECT_LE(std::abs(measured - wanted), 0.02 * wanted) << of << ": " << line;
    }
  }
  EXPECT_GT(count, 0) << outcome.all();
}

std::vector<Case> cases() {
  std::vector<Case> all = {{"one", 1, {}},
                           {"one_bf16", 1, {"bf16=1"}},
                           {"one_lora", 1, {"lora=1"}},
                           {"one_recompute", 1, {"recompute=1"}}};
  for (const std::string stage : {"0", "1", "2", "3"}) {
    all.push_back({"zero" + stage, 2, {"zero=" + stage}});
    all.push_back({"zero" + stage + "_four", 4, {"zero=" + stage}});
    all.push_back({"zero" + stage + "_bf16_recompute", 2, {"zero=" + stage, "bf16=1", "recompute=1"}});
    all.push_back({"zero" + stage + "_lora", 2, {"zero=" + stage, "lora=1"}});
    all.push_back({"zero" + stage + "_tensor", 4, {"zero=" + stage, "tensor=2"}});
    all.push_back({"zero" + stage + "_context", 4, {"zero=" + stage, "context=2"}});
    all.push_back({"zero" + stage + "_pipeline", 4, {"zero=" + stage, "pipeline=2", "accumulation=4"}});
  }
  all.push_back({"hybrid", 4, {"zero=3", "shard=2"}});
  all.push_back({"pipeline", 2, {"pipeline=2", "accumulation=4"}});
  all.push_back({"pipeline_recompute", 2, {"pipeline=2", "accumulation=4", "recompute=1"}});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Layouts, Memory, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace duoka::testing
