// SPDX-License-Identifier: Apache-2.0
// The same training on one, two and four ranks: losses over 20 updates and the final weights.
#include <numeric>
#include <tuple>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/run_ranks.h"
#include "train/small_training.h"

namespace duoka::testing {
namespace {

constexpr int num_updates = 20;

enum class Way { full, lora };
enum class Variant { rows, packed, recomputed };

struct Finished {
  std::vector<double> losses, norms;
  std::vector<std::string> names;
  std::vector<at::Tensor> values;
};

Finished train_on(int num_ranks, const SmallSetup& setup, const SmallData& data) {
  const TemporaryFolder out;
  Finished finished;
  test::run_ranks(num_ranks, [&](const comm::Group& group) {
    SmallTraining training(setup, data, out.path(), group);
    training.run();
    auto values = training.trained_values();
    if (group.rank() != 0) return;
    finished.values = std::move(values);
    finished.names = training.trained_names();
  });
  finished.losses = history(out.path(), "loss");
  finished.norms = history(out.path(), "grad_norm");
  return finished;
}

class Equivalence : public ::testing::TestWithParam<std::tuple<Way, Variant, const char*>> {
 protected:
  SmallSetup setup() const {
    const auto [way, variant, model] = GetParam();
    SmallSetup setup = lora_setup(0.1);
    if (way == Way::full) {
      setup.selection = {.finetuning_type = tune::FinetuningType::full};
      setup.schedule.learning_rate = 1e-3;
    }
    setup.model = fixture("cases/models") / model;
    setup.schedule.type = "cosine";
    setup.schedule.warmup_steps = 3;
    setup.weight_decay = 0.1;
    setup.max_grad_norm = 1;
    setup.is_shuffled = true;
    setup.streams_per_update = 4;
    setup.max_steps = num_updates;
    if (variant == Variant::packed) setup.packed_tokens = 96;
    setup.recompute = variant == Variant::recomputed;
    return setup;
  }
};

TEST_P(Equivalence, TwoAndFourRanksTrainAsOne) {
  const TemporaryFolder folder;
  // Not a multiple of four: the last update of an epoch leaves ranks without rows.
  const SmallData data(write_rows(folder / "rows.jsonl", 53));
  const Finished alone = train_on(1, setup(), data);
  ASSERT_EQ(alone.losses.size(), size_t{num_updates});
  const auto sum_of_five = [&](auto first) { return std::accumulate(first, first + 5, 0.0); };
  EXPECT_LT(sum_of_five(alone.losses.end() - 5), sum_of_five(alone.losses.begin()));  // it learns something
  for (const int num_ranks : {2, 4}) {
    const Finished apart = train_on(num_ranks, setup(), data);
    ASSERT_EQ(apart.losses.size(), alone.losses.size());
    for (size_t i = 0; i < alone.losses.size(); ++i) {
      EXPECT_NEAR(apart.losses[i], alone.losses[i], 1e-5 * alone.losses[i]) << num_ranks << " ranks, " << i;
      EXPECT_NEAR(apart.norms[i], alone.norms[i], 1e-4 * alone.norms[i]) << num_ranks << " ranks, " << i;
    }
    ASSERT_EQ(apart.values.size(), alone.values.size());
    for (size_t i = 0; i < alone.values.size(); ++i)
      EXPECT_LT((apart.values[i] - alone.values[i]).abs().max().item<double>(), 1e-5)
          << num_ranks << " ranks, " << alone.names[i];
  }
}

std::string name_of(const ::testing::TestParamInfo<Equivalence::ParamType>& test) {
  const auto [way, variant, model] = test.param;
  const std::string name =
      std::string(way == Way::full ? "full" : "lora") + (variant == Variant::packed       ? "_packed"
                                                         : variant == Variant::recomputed ? "_recomputed"
                                                                                          : "_rows");
  return name + (std::string(model) == "tiny-llama-tied" ? "_tied" : "");
}

INSTANTIATE_TEST_SUITE_P(Grid, Equivalence,
                         ::testing::Combine(::testing::Values(Way::full, Way::lora),
                                            ::testing::Values(Variant::rows, Variant::packed,
                                                              Variant::recomputed),
                                            ::testing::Values("tiny-llama", "tiny-llama-tied")),
                         name_of);

}  // namespace
}  // namespace duoka::testing
