// SPDX-License-Identifier: Apache-2.0
// Pieces of ring attention on a card against the CPU's. Skips where there is no card.
#include "model/attention_piece.h"
#include "model/layer_fixture.h"

namespace duoka::model {
namespace {

using namespace test;

void check(at::ScalarType dtype, int64_t num_queries, int64_t num_keys, bool is_causal, double tolerance) {
  const auto q = random_tensor("q", {num_queries, 2, 3, 16}), k = random_tensor("k", {num_keys, 2, 16}),
             v = random_tensor("v", {num_keys, 2, 16}), dout = random_tensor("dout", {num_queries, 2, 3, 16});
  const auto wanted = attend_piece(q, k, v, is_causal);
  const auto d = attend_piece_backward(dout, q, k, v, wanted, is_causal);
  const auto there = [&](const at::Tensor& x) { return x.contiguous().to(at::kCUDA, dtype); };
  const auto found = attend_piece(there(q), there(k), there(v), is_causal);
  const auto found_d = attend_piece_backward(there(dout), there(q), there(k), there(v), found, is_causal);
  EXPECT_EQ(found.out.scalar_type(), dtype);
  EXPECT_EQ(found.log_sum_exp.scalar_type(), at::kFloat);
  const std::pair<at::Tensor, at::Tensor> pairs[] = {{found.out, wanted.out},
                                                     {found.log_sum_exp, wanted.log_sum_exp},
                                                     {found_d.dq, d.dq},
                                                     {found_d.dk, d.dk},
                                                     {found_d.dv, d.dv}};
  for (const auto& [mine, whole] : pairs) EXPECT_LT(relative_error(mine.cpu(), whole), tolerance);
}

TEST(OnCard, PiecesOfAttentionAreTheCpus) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA card, or a build without CUDA";
  for (const auto& [dtype, tolerance] :
       {std::pair{at::kFloat, 1e-4}, {at::kBFloat16, 3e-2}, {at::kHalf, 1e-2}}) {
    check(dtype, 77, 77, true, tolerance);
    check(dtype, 77, 40, false, tolerance);
    check(dtype, 33, 100, false, tolerance);
  }
}

}  // namespace
}  // namespace duoka::model
