// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/embedding.h"

#include "duoka/core/error.h"
#include "model/layer_fixture.h"

namespace duoka::model {
namespace {

using namespace test;

TEST(Embedding, TakesRowsAndAddsTheirGradients) {
  Embedding embedding(random_source(), "e", 16, 5);
  const Stream stream = stream_of({20, 30});  // more tokens than ids, so that rows repeat
  const Leaves leaves = leaves_of(embedding.parameters());
  const auto wanted = leaves.at("e").index_select(0, stream.ids);
  const auto dy = random_tensor("dy", wanted.sizes());
  Saved saved;
  EXPECT_TRUE(at::equal(embedding.forward({}, stream, saved), wanted.detach()));
  EXPECT_FALSE(embedding.backward(dy, stream, saved).defined());
  EXPECT_TRUE(saved.is_empty());
  expect_gradients(embedding.parameters(), leaves, wanted, dy, 1e-13);
}

TEST(Embedding, FrozenHasNoGradient) {
  Embedding embedding(random_source(at::kFloat, [](auto&) { return false; }), "e", 16, 5);
  Saved saved;
  embedding.backward(random_tensor("dy", {4, 5}, at::kFloat), stream_of({4}), saved);
  EXPECT_FALSE(embedding.weight().grad.defined());
}

TEST(Embedding, SumsHalfPrecisionInF32) {
  Embedding embedding(random_source(at::kBFloat16), "e", 1, 1);
  Saved saved;
  embedding.backward(at::full({300, 1}, 1.0, at::kBFloat16), stream_of({300}, 1), saved);
  EXPECT_EQ(embedding.weight().grad.item<float>(), 300.0F) << "bf16 would have stopped at 256";
}

TEST(Embedding, RefusesIdsOutsideTheVocabulary) {
  Embedding embedding(random_source(), "e", 16, 5);
  EXPECT_THROW(embedding.rows(at::tensor({3, 16}, at::kLong)), StateError);
  EXPECT_THROW(embedding.rows(at::tensor({-1}, at::kLong)), StateError);
}

}  // namespace
}  // namespace duoka::model
