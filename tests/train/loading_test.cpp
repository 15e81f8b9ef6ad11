// SPDX-License-Identifier: Apache-2.0
// While a model is loaded, a rank's memory stays below what it keeps and one tensor, in every layout.
#include <algorithm>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/host_allocator.h"
#include "duoka/model/decoder.h"
#include "duoka/parallel/layout.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka {
namespace {

struct Case {
  std::string name;
  int num_ranks;
  parallel::Plan plan;
};

class Loading : public ::testing::TestWithParam<Case> {};

/// Loads as the ranks of `c` do, one after the other: what each adds to the process, and the most it took.
void check_peak(const Case& c, const std::filesystem::path& path, at::ScalarType dtype) {
  host_allocator::install();
  std::mutex one_at_a_time;
  int64_t whole = 0, largest = 0;
  {
    model::Decoder decoder = model::Decoder::load(path);
    for (const Parameter* parameter : decoder.parameters()) {
      whole += parameter->numel() * static_cast<int64_t>(c10::elementSize(dtype));
      largest = std::max(largest, static_cast<int64_t>(parameter->value.nbytes()));  // as read: f32
    }
  }
  test::run_ranks(c.num_ranks, [&](const comm::Group& world) {
    parallel::Layout layout(c.plan, world);
    layout.share_layers(parallel::stack_of(model::read_config(path)));
    std::unique_lock lock(one_at_a_time);
    const int64_t before = host_allocator::live_bytes();
    host_allocator::reset_peak();
    const model::LoadOptions options{
        .dtype = dtype,
        .tensor_axis = layout.tensor_axis(),
        .layers = layout.layers(),
        .on_parameter = [&](Parameter& parameter) { layout.keep(parameter); },
    };
    const model::Decoder decoder = model::Decoder::load(path, options);
    const int64_t kept = host_allocator::live_bytes() - before;
    const int64_t peak = host_allocator::peak_bytes() - before;
    constexpr int64_t small_change = 1 << 20;  // a config, the tables of rope
    EXPECT_LE(peak, kept + largest + small_change) << "rank " << world.rank() << " of " << c.name;
    if (c.num_ranks > 1) {
      EXPECT_LT(kept, whole * 3 / 4) << "rank " << world.rank() << " of " << c.name;
    }
    lock.unlock();
    comm::barrier(world);  // nobody frees while another counts
  });
}

TEST_P(Loading, FromGgufTakesWhatIsKeptAndOneTensor) {
  const auto path = testing::asset("SmolLM2-135M-Instruct.Q4_1.gguf");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path << "; scripts/demo fetches it";
  check_peak(GetParam(), path, at::kFloat);
  check_peak(GetParam(), path, at::kBFloat16);
}

parallel::Plan plan(int zero_stage, int tensor = 1, int pipeline = 1) {
  parallel::Plan plan;
  plan.zero_stage = zero_stage;
  plan.tensor = tensor;
  plan.pipeline = pipeline;
  return plan;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Loading,
                         ::testing::Values(Case{"one_rank", 1, plan(0)}, Case{"zero3", 4, plan(3)},
                                           Case{"tensor", 3, plan(0, 3)}, Case{"pipeline", 2, plan(0, 1, 2)},
                                           Case{"tensor_zero3", 6, plan(3, 3)}),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace duoka
