// SPDX-License-Identifier: Apache-2.0
// Attention over rows that lie on several ranks, against the same rows on one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/stream_cut.h"
#include "duoka/parallel/context_axis.h"
#include "model/attention_ring.h"
#include "model/layer_fixture.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using model::test::random_tensor;
using model::test::stream_of;

struct Case {
  std::vector<int64_t> lengths;
  int64_t num_heads, num_kv_heads;
  int64_t head_dim = 8;
};

struct Tensors {
  at::Tensor q, k, v, dout;
  Tensors(const Case& what, int64_t num_tokens, at::ScalarType dtype)
      : q(random_tensor("q", {num_tokens, what.num_heads, what.head_dim}, dtype)),
        k(random_tensor("k", {num_tokens, what.num_kv_heads, what.head_dim}, dtype)),
        v(random_tensor("v", {num_tokens, what.num_kv_heads, what.head_dim}, dtype)),
        dout(random_tensor("dout", {num_tokens, what.num_heads, what.head_dim}, dtype)) {}
};

/// Place in the whole stream of each token of the part.
at::Tensor places(const Stream& part, const Stream& whole) {
  const auto lengths = at::tensor(part.segment_offsets, at::kLong).diff();
  return part.positions +
         whole.segments.narrow(0, 0, whole.num_segments()).to(at::kLong).repeat_interleave(lengths);
}

/// As a share of the whole's largest number: a first token's dq is 0 but for rounding.
void expect_near(const at::Tensor& found, const at::Tensor& whole, const at::Tensor& at, double tolerance,
                 const std::string& what) {
  const auto wanted = whole.index_select(0, at);
  EXPECT_EQ(found.scalar_type(), wanted.scalar_type()) << what;
  EXPECT_EQ(found.sizes(), wanted.sizes()) << what;
  if (found.sizes() != wanted.sizes() || found.numel() == 0) return;
  const auto largest = whole.abs().max().to(at::kDouble);
  const auto error = (found.to(at::kDouble) - wanted.to(at::kDouble)).abs().max() / largest;
  EXPECT_LT(error.item<double>(), tolerance) << what;
}

void check(const Case& what, int size, at::ScalarType dtype, double tolerance) {
  const Stream whole = stream_of(what.lengths);
  const Tensors all(what, whole.num_tokens(), dtype);
  const auto attended = model::attend(all.q, all.k, all.v, whole, 0);
  const auto gradients = model::attend_backward(all.dout, all.q, all.k, all.v, attended, whole, 0);
  test::run_ranks(size, [&](const comm::Group& group) {
    const auto axis = make_context_axis(group);
    const Stream part = cut_stream(whole, group.rank(), size);
    const at::Tensor at = places(part, whole);
    const auto own = [&](const at::Tensor& x) { return x.index_select(0, at); };
    const at::Tensor q = own(all.q), k = own(all.k), v = own(all.v);
    const auto found = model::attend_ring(*axis, q, k, v, part, 0);
    const auto d = model::attend_ring_backward(*axis, own(all.dout), q, k, v, found, part, 0);
    const std::string rank = " on rank " + std::to_string(group.rank()) + " of " + std::to_string(size);
    expect_near(found.out, attended.out, at, tolerance, "out" + rank);
    expect_near(d.dq, gradients.dq, at, tolerance, "dq" + rank);
    expect_near(d.dk, gradients.dk, at, tolerance, "dk" + rank);
    expect_near(d.dv, gradients.dv, at, tolerance, "dv" + rank);
    EXPECT_EQ(found.context.size(), model::num_ring_context(*axis, q));
  });
}

void check(const Case& what) {
  for (const int size : {2, 3, 4}) {
    check(what, size, at::kDouble, 1e-10);
    check(what, size, at::kFloat, 1e-5);
  }
}

TEST(RingAttention, IsTheWholes) { check({{64}, 4, 4}); }

TEST(RingAttention, IsTheWholesForUnevenSegmentsAndGroupedHeads) {
  check({{37, 5, 90, 24}, 6, 2});
  check({{150, 61}, 3, 1, 16});
}

TEST(RingAttention, IsTheWholesForRowsShorterThanTheChunks) {
  check({{1, 3, 7, 2, 33, 5}, 4, 2});
  check({{2}, 2, 1});  // most ranks have no token
  check({{1, 1, 2}, 2, 2});
}

// Half types round what each block gives; the merge is in f32.
TEST(RingAttention, IsNearTheWholesInBfloat16) { check({{130, 61}, 4, 2, 16}, 4, at::kBFloat16, 2e-2); }

TEST(RingAttention, SendsKeysAndValuesOnceRoundAndTheirGradientsToo) {
  constexpr int size = 4;
  const Case what{{80, 40}, 6, 2};
  const Stream whole = stream_of(what.lengths);
  test::run_ranks(size, [&](const comm::Group& group) {
    const auto axis = make_context_axis(group);
    const Stream part = cut_stream(whole, group.rank(), size);
    const Tensors own(what, part.num_tokens(), at::kBFloat16);
    const int64_t block = 2 * 30 * 2 * 8;  // numbers: keys and values, tokens of a rank, key heads, dims
    comm::Traffic& traffic = group.traffic();
    const auto found = model::attend_ring(*axis, own.q, own.k, own.v, part, 0);
    EXPECT_EQ(traffic.total(), (comm::Traffic::Count{6, 3 * block * 2}));
    EXPECT_EQ(traffic.count(comm::Operation::send).calls, 3);
    traffic.reset();
    model::attend_ring_backward(*axis, own.dout, own.q, own.k, own.v, found, part, 0);
    EXPECT_EQ(traffic.total(), (comm::Traffic::Count{12, 3 * block * (2 + 4)}));
  });
}

TEST(RingAttention, RefusesAStreamThatIsNotItsPartAndAWindow) {
  const Case what{{9, 20}, 2, 1};
  const Stream whole = stream_of(what.lengths);
  test::run_ranks(2, [&](const comm::Group& group) {
    const auto axis = make_context_axis(group);
    const auto message = [&](const Stream& stream, int64_t window) {
      const Tensors some(what, stream.num_tokens(), at::kFloat);
      return testing::message_of<StateError>(
          [&] { model::attend_ring(*axis, some.q, some.k, some.v, stream, window); });
    };
    EXPECT_THAT(message(whole, 0), ::testing::HasSubstr("29 tokens that is not this rank's part"));
    EXPECT_THAT(message(cut_stream(whole, 1 - group.rank(), 2), 0),
                ::testing::HasSubstr("not this rank's part"));
    EXPECT_THAT(message(cut_stream(whole, group.rank(), 2), 19), ::testing::HasSubstr("no sliding windows"));
    const Stream part = cut_stream(whole, group.rank(), 2);
    const Tensors some(what, part.num_tokens(), at::kFloat);
    EXPECT_NO_THROW(model::attend_ring(*axis, some.q, some.k, some.v, part, 20)) << "sees whole rows";
  });
}

TEST(ContextAxis, SeveralExchangesMayBeUnderWay) {
  test::run_ranks(3, [&](const comm::Group& group) {
    const auto axis = make_context_axis(group);
    const int rank = group.rank(), previous = (rank + 2) % 3;
    std::vector<at::Tensor> received;
    std::vector<std::unique_ptr<model::ContextAxis::Exchange>> exchanges;
    for (int i = 0; i < 6; ++i) {  // rank r sends r * i numbers: none at times
      received.push_back(at::empty({previous * i}, at::kFloat));
      exchanges.push_back(axis->start_exchange(at::full({rank * i}, 10.0F * rank + i), received.back()));
    }
    for (int i = 5; i >= 0; --i) {
      exchanges[static_cast<size_t>(i)]->finish();
      EXPECT_TRUE(
          at::equal(received[static_cast<size_t>(i)], at::full({previous * i}, 10.0F * previous + i)));
    }
  });
}

TEST(ContextAxis, OfOneRankIsSolo) {
  const auto axis = make_context_axis(comm::Group());
  EXPECT_TRUE(axis->is_solo());
  EXPECT_EQ(axis, model::solo_context_axis());
}

TEST(RingAttention, OfOneRankIsPlainAttention) {
  const Case what{{9, 20}, 4, 2};
  const Stream whole = stream_of(what.lengths);
  const Tensors all(what, 29, at::kFloat);
  const auto axis = model::solo_context_axis();
  const auto found = model::attend_ring(*axis, all.q, all.k, all.v, whole, 5);
  const auto d = model::attend_ring_backward(*axis, all.dout, all.q, all.k, all.v, found, whole, 5);
  const auto wanted = model::attend(all.q, all.k, all.v, whole, 5);
  EXPECT_TRUE(at::equal(found.out, wanted.out));
  EXPECT_TRUE(at::equal(d.dq, model::attend_backward(all.dout, all.q, all.k, all.v, wanted, whole, 5).dq));
  EXPECT_EQ(found.context.size(), model::num_ring_context(*axis, all.q));
  const Stream part = cut_stream(whole, 0, 2);
  const Tensors some(what, part.num_tokens(), at::kFloat);
  EXPECT_THROW(model::attend_ring(*axis, some.q, some.k, some.v, part, 0), StateError);
}

}  // namespace
}  // namespace duoka::parallel
