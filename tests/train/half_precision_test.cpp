// SPDX-License-Identifier: Apache-2.0
// Layouts that cut matrices, in bf16: the training of one rank but for the rounding of what layers pass on.
#include <cmath>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/rounding.h"
#include "train/small_training.h"

namespace duoka::testing {
namespace {

using model::test::distance;

constexpr size_t num_updates = 5;

/// Puts a slot's gradient where it belongs in the whole; NaN where no rank has any.
void paste(model::test::Gradients& gradients, const parallel::Slot& slot) {
  at::Tensor& whole = gradients[slot.parameter->name];
  if (!whole.defined()) whole = at::full(slot.parameter->global_shape, NAN, at::kFloat);
  at::Tensor box = whole;
  for (int64_t dim = 0; dim < slot.grad.dim(); ++dim)
    box = box.narrow(dim, slot.offset[static_cast<size_t>(dim)], slot.grad.size(dim));
  box.copy_(slot.grad);
}

/// A training, and its first update's gradients, whole.
std::pair<Finished, model::test::Gradients> train_with_gradients(const Grid& grid, SmallSetup setup,
                                                                 const SmallData& data) {
  const TemporaryFolder out;
  model::test::Gradients gradients;
  std::mutex mutex;
  // Each rank has a copy, so that each has its own first update.
  setup.after_step = [&, is_first = true](std::span<const parallel::Slot> slots) mutable {
    if (!std::exchange(is_first, false)) return;
    const std::lock_guard lock(mutex);
    for (const parallel::Slot& slot : slots) paste(gradients, slot);
  };
  Finished finished = train_on(grid, setup, data, out.path());
  return {std::move(finished), std::move(gradients)};
}

/// Plain SGD: a step as large as the gradient, so that what rounding changes there is small here too.
SmallSetup setup_of(bool is_lora) {
  SmallSetup setup = lora_setup(0.1);
  setup.selection = {.lora_target = "all"};
  if (!is_lora) setup.selection = {.finetuning_type = tune::FinetuningType::full};
  setup.dtype = at::kBFloat16;
  setup.is_adamw = false;
  setup.schedule.learning_rate = 0.05;
  setup.streams_per_update = 4;
  setup.max_steps = num_updates;
  return setup;
}

TEST(HalfPrecision, LayoutsThatCutMatricesTrainAsOneRank) {
  const double tolerance = model::test::rounding_tolerance(at::kBFloat16, 2);
  const TemporaryFolder folder;
  const SmallData data(write_rows(folder / "rows.jsonl", 23));
  const std::vector<Grid> grids = {{"tensor_2", 2, {.tensor = 2}},
                                   {"pipeline_2_tensor_2", 4, {.tensor = 2, .pipeline = 2}},
                                   {"zero3_2_tensor_2", 4, {.zero_stage = 3, .tensor = 2}}};
  for (const bool is_lora : {false, true}) {
    const SmallSetup setup = setup_of(is_lora);
    const auto [wanted, wanted_gradients] = train_with_gradients({"one"}, setup, data);
    ASSERT_EQ(wanted.losses.size(), num_updates);
    for (const Grid& grid : grids) {
      SCOPED_TRACE(grid.name + (is_lora ? ", lora" : ", full"));
      const auto [found, gradients] = train_with_gradients(grid, setup, data);
      ASSERT_EQ(found.losses.size(), num_updates);
      EXPECT_LT(distance(gradients, wanted_gradients), tolerance);
      for (size_t i = 0; i < num_updates; ++i) {
        EXPECT_NEAR(found.losses[i] / wanted.losses[i], 1, tolerance) << "update " << i + 1;
        EXPECT_NEAR(found.norms[i] / wanted.norms[i], 1, tolerance) << "update " << i + 1;
      }
    }
  }
}

}  // namespace
}  // namespace duoka::testing
