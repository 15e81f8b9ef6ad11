// SPDX-License-Identifier: Apache-2.0
// DataParallel: a network with branches, a weight used twice and parts that some micro-batches leave out
// trains on many ranks as it does with autograd alone.
#include <mutex>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "duoka/core/error.h"
#include "duoka/parallel/data_parallel.h"
#include "duoka/parallel/layout.h"
#include "parallel/gradient_sums.h"
#include "support/run_ranks.h"

namespace duoka::parallel {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<at::Tensor>;

constexpr int64_t num_micro = 7, num_inputs = 5, width = 4;
constexpr double learning_rate = 0.1;

int64_t num_samples(int64_t micro) { return 1 + micro % 3; }
int64_t num_samples_of_all() {
  int64_t sum = 0;
  for (int64_t micro = 0; micro < num_micro; ++micro) sum += num_samples(micro);
  return sum;
}

/// No chain: two ways from the input to the output, one of them by way of a weight that is used again, and a
/// gate that every second micro-batch uses.
struct Network {
  at::Tensor first, shared, gate, frozen, last;

  /// offset: added to what trains.
  explicit Network(at::ScalarType dtype = at::kDouble, double offset = 0) {
    const auto weight = [&](at::IntArrayRef shape, double seed, double added) {
      const at::Tensor place = at::arange(c10::multiply_integers(shape), at::kDouble);
      return (at::sin(place * 0.7 + seed) * 0.5 + added).view(shape).to(dtype);
    };
    first = weight({width, num_inputs}, 1, offset).requires_grad_(true);
    shared = weight({width, width}, 2, offset).requires_grad_(true);
    gate = weight({width}, 3, offset).requires_grad_(true);
    frozen = weight({width}, 4, 0);
    last = weight({1, width}, 5, offset).requires_grad_(true);
  }

  DataParallel::NamedTensors parameters() const {
    return {{"first", first}, {"shared", shared}, {"gate", gate}, {"frozen", frozen}, {"last", last}};
  }
  Values trained() const { return {first, shared, gate, last}; }

  at::Tensor loss_sum(int64_t micro, const std::function<void(const at::Tensor&)>& look = {}) const {
    const at::Tensor place = at::arange(num_samples(micro) * num_inputs, at::kDouble) + 10 * micro;
    const at::Tensor x = at::cos(place).view({-1, num_inputs}).to(first.scalar_type());
    at::Tensor hidden = at::matmul(x, first.t()) + frozen;
    if (look) look(hidden);
    at::Tensor other = at::matmul(at::tanh(hidden), shared.t());
    if (micro % 2 == 0) other = other * gate;
    const at::Tensor y = at::matmul(hidden + at::matmul(other, shared), last.t());
    return (y - x.select(1, 0).unsqueeze(1)).square().sum();
  }
};

/// What autograd alone gives after `num_updates`, and the losses.
struct Trained {
  Values values;
  std::vector<double> losses;
};

Trained with_autograd_alone(int num_updates) {
  const Network network;
  Trained out;
  for (int update = 0; update < num_updates; ++update) {
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (int64_t micro = 0; micro < num_micro; ++micro) loss = loss + network.loss_sum(micro);
    loss = loss / num_samples_of_all();
    const auto gradients = torch::autograd::grad({loss}, network.trained());
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < gradients.size(); ++i) network.trained()[i].sub_(gradients[i] * learning_rate);
    out.losses.push_back(loss.item<double>());
  }
  for (const at::Tensor& value : network.trained()) out.values.push_back(value.detach());
  return out;
}

Trained with_ranks(int num_ranks, const Plan& plan, const EngineOptions& options, int num_updates,
                   at::ScalarType dtype = at::kDouble) {
  Trained out;
  std::vector<std::vector<double>> losses(static_cast<size_t>(num_ranks));
  test::run_ranks(num_ranks, [&](const comm::Group& group) {
    const Network network(dtype, group.rank() == 0 ? 0 : 1);  // the first rank's values count
    Layout layout(plan, group);
    DataParallel parallel(network.parameters(), layout, options);
    const auto share = layout.data_share();
    const int64_t own = (num_micro - share.rank + share.size - 1) / share.size;
    for (int update = 0; update < num_updates; ++update) {
      const auto loss_sum = parallel.forward_backward(own, num_samples_of_all(), [&](int64_t micro) {
        return network.loss_sum(share.rank + micro * share.size);
      });
      parallel.finish_gradients();
      const at::NoGradGuard no_grad;
      for (Slot& slot : parallel.slots()) slot.master.sub_(slot.grad * learning_rate);
      parallel.publish();
      losses[static_cast<size_t>(group.rank())].push_back(loss_sum.value());
    }
    if (group.rank() != 0) return;
    for (const at::Tensor& value : network.trained()) out.values.push_back(value.detach());
  });
  for (int update = 0; update < num_updates; ++update) {
    double sum = 0;
    for (const auto& of_rank : losses) sum += of_rank[static_cast<size_t>(update)];
    out.losses.push_back(sum / static_cast<double>(num_samples_of_all()));
  }
  return out;
}

double largest_difference(const Values& a, const Values& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  return largest;
}

TEST(DataParallelModule, TrainsAsAutogradAloneDoes) {
  const Trained wanted = with_autograd_alone(4);
  for (const int num_ranks : {1, 2, 4, 8})  // of eight, one has no micro-batch
    for (const int stage : {0, 1, 2})
      for (const int64_t bucket_bytes : {int64_t{1}, int64_t{1} << 20})
        for (const bool exact : {false, true}) {
          SCOPED_TRACE(::testing::Message() << num_ranks << " ranks, ZeRO-" << stage << ", buckets of "
                                            << bucket_bytes << (exact ? ", exact" : ""));
          const Trained found =
              with_ranks(num_ranks, {.zero_stage = stage}, {.bucket_bytes = bucket_bytes, .exact = exact}, 4);
          ASSERT_EQ(found.values.size(), wanted.values.size());
          EXPECT_LT(largest_difference(found.values, wanted.values), 1e-12);
          for (size_t i = 0; i < wanted.losses.size(); ++i)
            EXPECT_NEAR(found.losses[i], wanted.losses[i], 1e-12 * wanted.losses[i]) << "update " << i + 1;
        }
}

TEST(DataParallelModule, ExactSumsGiveTheSameBitsOnAnyNumberOfRanks) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Trained one = with_ranks(1, {}, {.exact = true}, 3, dtype);
    for (const int num_ranks : {2, 4})
      for (const int stage : {0, 2}) {
        const Trained many = with_ranks(num_ranks, {.zero_stage = stage}, {.exact = true}, 3, dtype);
        for (size_t i = 0; i < one.values.size(); ++i)
          EXPECT_TRUE(at::equal(many.values[i], one.values[i])) << num_ranks << " ranks, ZeRO-" << stage;
      }
  }
}

/// When autograd has come back to the first layer's output, what lies behind it has been sent; the last
/// micro-batch alone sends.
TEST(DataParallelModule, SendsWhileAutogradIsAtWork) {
  test::run_ranks(2, [&](const comm::Group& group) {
    const Network network;
    Layout layout({}, group);
    DataParallel parallel(network.parameters(), layout, {.bucket_bytes = 1});
    comm::Traffic& traffic = layout.sum_groups().whole_replicas.traffic();
    traffic.reset();
    std::vector<int64_t> sent;
    parallel.forward_backward(2, 4, [&](int64_t micro) {
      return network.loss_sum(2 * micro, [&](const at::Tensor& hidden) {
        hidden.register_hook(
            [&](const at::Tensor&) { sent.push_back(traffic.count(comm::Operation::all_reduce).calls); });
      });
    });
    EXPECT_THAT(sent, ::testing::ElementsAre(0, 3));  // last, gate, shared
    parallel.finish_gradients();
    EXPECT_EQ(traffic.count(comm::Operation::all_reduce).calls, 4);
  });
}

TEST(DataParallelModule, SumsAreTheTensorsGradientsForOptimizersOfTorch) {
  test::run_ranks(2, [&](const comm::Group& group) {
    const Network network;
    Layout layout({}, group);
    DataParallel parallel(network.parameters(), layout);
    parallel.forward_backward(1, 3, [&](int64_t) { return network.loss_sum(group.rank()); });
    parallel.finish_gradients();
    const at::Tensor loss = (network.loss_sum(0) + network.loss_sum(1)) / 3;
    const auto wanted = torch::autograd::grad({loss}, network.trained());
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_LT((network.trained()[i].grad() - wanted[i]).abs().max().item<double>(), 1e-13);
    EXPECT_FALSE(network.frozen.grad().defined());
  });
}

TEST(DataParallelModule, TheCallersOwnBackwardIsLeftAlone) {
  const Network network;
  Layout layout({}, {});
  {
    DataParallel parallel(network.parameters(), layout);
    torch::autograd::backward({network.loss_sum(0)});
    EXPECT_TRUE(network.first.grad().defined());
    EXPECT_EQ(parallel.slots()[0].grad.abs().max().item<double>(), 0);
    EXPECT_THAT([&] { DataParallel second(network.parameters(), layout); },
                ::testing::ThrowsMessage<StateError>(HasSubstr("first has a post-accumulate hook already")));
  }
  DataParallel again(network.parameters(), layout);  // the first one has taken its hooks off
}

TEST(DataParallelModule, ErrorsOfTheLossComeThrough) {
  const Network network;
  Layout layout({}, {});
  DataParallel parallel(network.parameters(), layout);
  EXPECT_THROW(parallel.forward_backward(1, 1, [](int64_t) -> at::Tensor { throw DataError("row 3"); }),
               DataError);
}

TEST(DataParallelModule, ALossThatIsNoNumberIsRefused) {
  const Network network;
  Layout layout({}, {});
  DataParallel parallel(network.parameters(), layout);
  EXPECT_THAT([&] { parallel.forward_backward(1, 1, [](int64_t) { return at::ones({2}); }); },
              ::testing::ThrowsMessage<StateError>(HasSubstr("is not one number")));
}

std::string refusal(const DataParallel::NamedTensors& parameters, const Plan& plan = {}, int num_ranks = 1,
                    const EngineOptions& options = {}) {
  std::mutex mutex;
  std::string message = "(accepted)";
  test::run_ranks(num_ranks, [&](const comm::Group& group) {
    Layout layout(plan, group);
    try {
      DataParallel parallel(parameters, layout, options);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      message = error.what();
    }
  });
  return message;
}

TEST(DataParallelModule, RefusesWhatItCannotTrain) {
  const Network network;
  const at::Tensor w = network.first, frozen = network.frozen;
  EXPECT_THAT(refusal({{"a", w}, {"a", frozen}}), HasSubstr("two parameters are called a"));
  EXPECT_THAT(refusal({{"a", w}, {"b", w}}), HasSubstr("a and b are the same tensor; pass it once"));
  EXPECT_THAT(refusal({{"a", w * 2}}), HasSubstr("a is not a floating-point leaf tensor"));
  EXPECT_THAT(refusal({{"a", frozen}}), HasSubstr("no parameter requires a gradient"));
  EXPECT_THAT(refusal({{"a", w}}, {}, 1, {.recompute = true}), HasSubstr("recompute is for chains"));
  EXPECT_THAT(refusal({{"a", w}}, {.tensor = 2}, 2), HasSubstr("found the layout tensor 2"));
  EXPECT_THAT(refusal({{"a", w}}, {.zero_stage = 3}, 2), HasSubstr("zero_stage 0, 1 or 2"));
}

}  // namespace
}  // namespace duoka::parallel
