// SPDX-License-Identifier: Apache-2.0
// The same training on one, two and four ranks: losses over 20 updates and the final weights.
#include <numeric>
#include <tuple>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "train/small_training.h"

namespace duoka::testing {
namespace {

constexpr int num_updates = 20;

enum class Way { full, lora };
enum class Variant { rows, packed, recomputed };

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
  const Finished alone = train_on({"one"}, setup(), data, folder / "one");
  ASSERT_EQ(alone.losses.size(), size_t{num_updates});
  const auto sum_of_five = [&](auto first) { return std::accumulate(first, first + 5, 0.0); };
  EXPECT_LT(sum_of_five(alone.losses.end() - 5), sum_of_five(alone.losses.begin()));  // it learns something
  for (const int num_ranks : {2, 4}) {
    SCOPED_TRACE(::testing::Message() << num_ranks << " ranks");
    expect_near(train_on({"many", num_ranks}, setup(), data, folder / "many"), alone);
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
