// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/shared_linear.h"

#include <gtest/gtest.h>

#include "model/tensor_ranks.h"

namespace duoka::model {
namespace {

using namespace test;

/// y and dx of a column-parallel layer, a tanh and a row-parallel one, and the gradients of the whole.
struct Passed {
  at::Tensor y, dx;
  std::vector<at::Tensor> gradients;
};

// Widths that 2 and 4 do not divide: the last rank has fewer columns.
Passed pass(const comm::Group& group) {
  const auto axis = parallel::make_tensor_axis(group);
  const auto source = random_source();
  SharedLinear first(source, "first", 7, 5, true, Split::outputs, axis);
  SharedLinear second(source, "second", 3, 7, true, Split::inputs, axis);
  const Stream stream = stream_of({4}, 37);
  const at::NoGradGuard no_grad;
  Saved saved;
  const at::Tensor x = random_tensor("x", {4, 5});
  const at::Tensor hidden = at::tanh(first.forward(x, stream, saved));
  EXPECT_EQ(hidden.size(1), axis->part(7).count);
  Passed out;
  out.y = second.forward(hidden, stream, saved);
  const at::Tensor dhidden = second.backward(random_tensor("dy", {4, 3}), stream, saved);
  out.dx = first.backward(dhidden * (1 - hidden.square()), stream, saved);
  EXPECT_TRUE(saved.is_empty());
  for (SharedLinear* layer : {&first, &second})
    for (const Parameter* parameter : layer->parameters())
      out.gradients.push_back(whole_gradient(*parameter, group));
  return out;
}

TEST(SharedLinear, ColumnAndRowParallelAreOneRank) {
  const Passed wanted = pass({});
  ASSERT_EQ(wanted.gradients.size(), 4u);
  for (const int size : {2, 4}) {
    duoka::test::run_ranks(size, [&](const comm::Group& group) {
      group.traffic().reset();
      const Passed found = pass(group);
      EXPECT_LT(relative_error(found.y, wanted.y), 1e-12);
      EXPECT_LT(relative_error(found.dx, wanted.dx), 1e-12);
      for (size_t i = 0; i < 4; ++i)
        EXPECT_LT(relative_error(found.gradients[i], wanted.gradients[i]), 1e-12);
      // y and dx in f64, and the four gradients of this test.
      EXPECT_EQ(group.traffic().count(comm::Operation::all_reduce),
                (comm::Traffic::Count{2 + 4, 8 * (4 * 3 + 4 * 5) + 8 * (7 * 5 + 7 + 3 * 7 + 3)}));
    });
  }
}

}  // namespace
}  // namespace duoka::model
