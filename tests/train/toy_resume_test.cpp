// SPDX-License-Identifier: Apache-2.0
// k updates, a checkpoint, a new process's worth of objects, n - k updates: the bits of n updates.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "duoka/comm/group.h"
#include "duoka/parallel/engine.h"
#include "duoka/parallel/layout.h"
#include "duoka/train/checkpoint.h"
#include "duoka/train/gradients.h"
#include "duoka/train/optimizer.h"
#include "duoka/train/schedule.h"
#include "parallel/toy_chain.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka::train {
namespace {

constexpr int64_t num_updates = 6;

/// All that a process has of a run, on the toy network in bf16 with f32 masters.
struct ToyRun {
  Chain chain;
  parallel::Layout layout;
  parallel::Engine engine;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Schedule> schedule =
      make_schedule({.type = "cosine", .learning_rate = 0.02, .warmup_steps = 2, .total_steps = num_updates});
  std::vector<double> losses;

  explicit ToyRun(const comm::Group& group, bool is_adamw)
      : chain(test::make_toy({.dtype = at::kBFloat16})),
        layout({}, group),
        engine(chain, layout),
        optimizer(is_adamw ? make_adamw({.weight_decay = 0.1}) : make_sgd({.momentum = 0.9})) {
    optimizer->prepare(engine.slots());
  }

  void updates(int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; ++step) {
      std::vector<Stream> micro[2] = {{test::toy_stream(static_cast<int>(2 * step))},
                                      {test::toy_stream(static_cast<int>(2 * step + 1))}};
      const int64_t trained = test::count_trained(micro[0]) + test::count_trained(micro[1]);
      if (engine.group().size() == 1) micro[0].push_back(micro[1][0]);
      const ExactSum loss_sum = engine.forward_backward(micro[engine.group().rank()], trained);
      engine.finish_gradients();
      const LossAndNorm sums = sum_loss_and_norm(loss_sum, trained, engine.slots(), engine.group());
      require_finite(sums, step + 1);
      clip_gradients(engine.slots(), sums.norm, 0.5);
      optimizer->step(engine.slots(), schedule->learning_rate(step));
      engine.publish();
      losses.push_back(sums.loss);
    }
  }
};

class Resume : public ::testing::TestWithParam<std::pair<int, bool>> {};

TEST_P(Resume, GivesTheBitsOfAnUninterruptedRun) {
  const auto [num_ranks, is_adamw] = GetParam();
  const testing::TemporaryFolder out;
  test::run_ranks(num_ranks, [&, is_adamw = is_adamw](const comm::Group& group) {
    ToyRun whole(group, is_adamw);
    whole.updates(0, num_updates);
    {
      ToyRun first(group, is_adamw);
      first.updates(0, 3);
      RunState state;
      state.step = 3;
      save_checkpoint(out.path(), first.engine.slots(), state, group);
    }
    ToyRun second(group, is_adamw);
    const RunState state = load_checkpoint(*find_last_checkpoint(out.path()), second.engine.slots(), group);
    second.engine.publish();
    second.updates(state.step, num_updates);

    EXPECT_EQ(second.losses, std::vector<double>(whole.losses.begin() + 3, whole.losses.end()));
    const auto wanted = whole.engine.slots(), found = second.engine.slots();
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(at::equal(found[i].master, wanted[i].master)) << wanted[i].parameter->name;
      EXPECT_TRUE(at::equal(found[i].parameter->value, wanted[i].parameter->value));
      for (const auto& [name, tensor] : wanted[i].state)
        EXPECT_TRUE(at::equal(found[i].state.at(name), tensor)) << name;
    }
    EXPECT_NE(whole.losses.front(), whole.losses.back());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Resume,
                         ::testing::Values(std::pair{1, true}, std::pair{2, true}, std::pair{2, false}));

TEST(ResumeElsewhere, TwoRanksGoOnAsOne) {
  const testing::TemporaryFolder out;
  std::vector<double> wanted;
  test::run_ranks(2, [&](const comm::Group& group) {
    ToyRun run(group, true);
    run.updates(0, 3);
    RunState state;
    state.step = 3;
    save_checkpoint(out.path(), run.engine.slots(), state, group);
    run.updates(3, num_updates);
    if (group.rank() == 0) wanted.assign(run.losses.begin() + 3, run.losses.end());
  });
  ToyRun alone(comm::Group(), true);
  load_checkpoint(*find_last_checkpoint(out.path()), alone.engine.slots(), comm::Group());
  alone.engine.publish();
  alone.updates(3, num_updates);
  ASSERT_EQ(alone.losses.size(), wanted.size());
  // bf16: another order of one addition may turn a rounding.
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(alone.losses[i], wanted[i], 1e-2 * wanted[i]);
  EXPECT_NEAR(alone.losses[0], wanted[0], 1e-6);  // before any update the weights are the same bits
}

}  // namespace
}  // namespace duoka::train
