// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "duoka/comm/collectives.h"
#include "duoka/parallel/assemble.h"
#include "parallel/gradient_sums.h"
#include "parallel/toy_chain.h"
#include "support/run_ranks.h"

namespace duoka::test {

/// Which micro-batches (by number) each data share computes in each update: updates[u][share].
using ToySchedule = std::vector<std::vector<std::vector<int>>>;

/// What all ranks' slots together hold.
struct ToyOutcome {
  std::vector<double> losses;
  std::vector<std::vector<at::Tensor>> gradients;  // of each update
  std::vector<at::Tensor> weights;                 // at the end
};

inline std::vector<Stream> toy_streams(const std::vector<int>& numbers) {
  std::vector<Stream> streams;
  for (const int number : numbers) streams.push_back(toy_stream(number));
  return streams;
}

inline int64_t count_trained(const std::vector<std::vector<int>>& update) {
  int64_t count = 0;
  for (const auto& numbers : update) count += count_trained(toy_streams(numbers));
  return count;
}

/// Puts the boxes of ranks that are threads of this process together, and checks that copies agree by bits.
class BoxCollector {
 public:
  explicit BoxCollector(const std::vector<Parameter*>& trainable) {
    for (const Parameter* parameter : trainable) {
      names_.push_back(parameter->name);
      wholes_.push_back(
          at::full(parameter->global_shape, std::nan(""), parameter->value.options().dtype(at::kDouble)));
    }
  }
  void add(const parallel::Slot& slot, const at::Tensor& value) {
    const auto found = std::find(names_.begin(), names_.end(), slot.parameter->name);
    at::Tensor box = wholes_[static_cast<size_t>(found - names_.begin())];
    for (int64_t dim = 0; dim < box.dim(); ++dim)
      box = box.narrow(dim, slot.offset[static_cast<size_t>(dim)], value.size(dim));
    const at::Tensor wide = value.to(at::kDouble);
    EXPECT_TRUE(box.isnan().all().item<bool>() || at::equal(box, wide))
        << slot.parameter->name << ": copies differ";
    box.copy_(wide);
  }
  std::vector<at::Tensor> take() {
    for (size_t i = 0; i < wholes_.size(); ++i)
      EXPECT_FALSE(wholes_[i].isnan().any().item<bool>()) << names_[i] << " is not covered";
    return std::move(wholes_);
  }

 private:
  std::vector<std::string> names_;
  std::vector<at::Tensor> wholes_;
};

inline std::vector<Parameter*> trainable(const Chain& chain) {
  std::vector<Parameter*> found;
  for (Parameter* parameter : chain.parameters())
    if (parameter->is_trainable) found.push_back(parameter);
  return found;
}

inline double sum_over_ranks(ExactSum sum, const comm::Group& group) {
  at::Tensor digits = at::empty({ExactSum::num_digits}, at::kLong);
  std::ranges::copy(sum.digits(), digits.mutable_data_ptr<int64_t>());
  comm::all_reduce(digits, comm::Op::sum, group);
  std::copy_n(digits.const_data_ptr<int64_t>(), ExactSum::num_digits, sum.digits().begin());
  return sum.value();
}

/// Plain gradient descent on `num_ranks` ranks under `plan`.
inline ToyOutcome train_toy(int num_ranks, const ToySchedule& schedule, const ToyOptions& toy,
                            const parallel::EngineOptions& options = {}, const parallel::Plan& plan = {}) {
  ToyOutcome outcome;
  std::mutex mutex;
  const Chain pattern = make_toy(toy);
  std::vector<BoxCollector> collectors;
  for (size_t i = 0; i <= schedule.size(); ++i) collectors.emplace_back(trainable(pattern));
  run_ranks(num_ranks, [&](const comm::Group& group) {
    parallel::Layout layout(plan, group);
    layout.share_layers(toy_stack(toy));
    ToyOptions here = toy;
    here.layers = layout.layers();
    Chain chain = make_toy(here);
    const auto engine = parallel::assemble(chain, layout, options);
    for (size_t u = 0; u < schedule.size(); ++u) {
      const auto micro = toy_streams(schedule[u][static_cast<size_t>(layout.data_share().rank)]);
      const int64_t trained = count_trained(schedule[u]);
      const double loss = sum_over_ranks(engine->forward_backward(micro, trained), group);
      engine->finish_gradients();
      for (parallel::Slot& slot : engine->slots()) {
        const std::lock_guard lock(mutex);
        collectors[u].add(slot, slot.grad);
        slot.master.sub_(slot.grad, 0.1);
      }
      engine->publish();
      const std::lock_guard lock(mutex);
      if (group.rank() == 0) outcome.losses.push_back(loss / static_cast<double>(trained));
    }
    const std::lock_guard lock(mutex);
    for (const parallel::Slot& slot : engine->slots()) collectors.back().add(slot, slot.master);
  });
  outcome.weights = collectors.back().take();
  collectors.pop_back();
  for (BoxCollector& collector : collectors) outcome.gradients.push_back(collector.take());
  return outcome;
}

/// All shares' micro-batches of each update, on one rank. In the order of their place: the first of each
/// share, …
inline ToySchedule on_one_rank(const ToySchedule& schedule) {
  ToySchedule joined;
  for (const auto& update : schedule) {
    joined.push_back({{}});
    size_t most = 0;
    for (const auto& numbers : update) most = std::max(most, numbers.size());
    for (size_t i = 0; i < most; ++i)
      for (const auto& numbers : update)
        if (i < numbers.size()) joined.back()[0].push_back(numbers[i]);
  }
  return joined;
}

/// `accumulation` micro-batches a share, three updates; the m-th of an update is share m % num_shares's.
inline ToySchedule even_schedule(int num_shares, int accumulation) {
  ToySchedule schedule(3);
  for (auto& update : schedule) {
    update.resize(static_cast<size_t>(num_shares));
    for (int m = 0; m < num_shares * accumulation; ++m)
      update[static_cast<size_t>(m % num_shares)].push_back(m);
  }
  return schedule;
}

inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

/// tolerance 0: the same bits.
inline void expect_equal(const ToyOutcome& found, const ToyOutcome& wanted, double tolerance) {
  ASSERT_EQ(found.losses.size(), wanted.losses.size());
  for (size_t u = 0; u < wanted.losses.size(); ++u) {
    EXPECT_NEAR(found.losses[u], wanted.losses[u], tolerance * wanted.losses[u]) << "update " << u;
    for (size_t i = 0; i < wanted.gradients[u].size(); ++i)
      EXPECT_LE(distance(found.gradients[u][i], wanted.gradients[u][i]), tolerance)
          << "update " << u << " parameter " << i;
  }
  for (size_t i = 0; i < wanted.weights.size(); ++i)
    EXPECT_LE(distance(found.weights[i], wanted.weights[i]), tolerance) << "parameter " << i;
  EXPECT_LT(wanted.losses.back(), wanted.losses.front()) << "it does not learn";
}

inline ToyOptions toy(at::ScalarType dtype, bool is_tied, int first_trained_block = -1) {
  ToyOptions options;
  options.dtype = dtype;
  options.is_tied = is_tied;
  options.first_trained_block = first_trained_block;
  return options;
}

/// Evaluates three micro-batches that rank 0 of two has alone, against one rank.
inline void expect_evaluates_the_sum_over_ranks(const parallel::Plan& plan) {
  const std::vector<Stream> all = toy_streams({0, 1, 2});
  Chain chain = make_toy();
  parallel::Layout alone({}, comm::Group());
  const parallel::LossSums wanted = parallel::Engine(chain, alone).evaluate(all);
  run_ranks(2, [&](const comm::Group& group) {
    Chain own = make_toy();
    parallel::Layout layout(plan, group);
    parallel::Engine engine(own, layout);
    const parallel::LossSums sums =
        engine.evaluate(group.rank() == 0 ? std::span(all) : std::span<const Stream>());
    EXPECT_EQ(sums.loss_sum, wanted.loss_sum);
    EXPECT_EQ(sums.num_trained, wanted.num_trained);
  });
}

/// What the reduction of gradients sent, for a layout without tensor parallelism's slices.
inline comm::Traffic& gradient_traffic(const parallel::Layout& layout) {
  const parallel::SumGroups& groups = layout.sum_groups();
  return groups.shard.size() > 1 ? groups.shard.traffic() : groups.whole_replicas.traffic();
}

}  // namespace duoka::test
