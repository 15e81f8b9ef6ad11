// SPDX-License-Identifier: Apache-2.0
// What a chain's layers save goes out of memory and comes back: whatever shares memory with whatever.
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "duoka/comm/group.h"
#include "duoka/core/host_allocator.h"
#include "duoka/parallel/engine.h"
#include "duoka/parallel/layout.h"
#include "duoka/parallel/mean_squared_error.h"
#include "parallel/toy_chain.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using test::toy_stream;
using testing::names_in;
using testing::TemporaryFolder;

constexpr int64_t width = 256;

/// Which of the tensors that layers have saved are in memory.
class Watch {
 public:
  void add(const at::Tensor& tensor) { all_.push_back(tensor.storage().getWeakStorageImpl()); }
  /// Called at the beginning of each forward and backward.
  void look() {
    int alive = 0;
    for (const auto& one : all_) alive += one.expired() ? 0 : 1;
    most_ = std::max(most_, alive);
    most_bytes_ = std::max(most_bytes_, host_allocator::live_bytes(MemoryClass::activations));
  }
  int most() const { return most_; }
  int64_t most_bytes() const { return most_bytes_; }

 private:
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> all_;
  int most_ = 0;
  int64_t most_bytes_ = 0;
};

/// y = x + w sin(x), and everything saved that could be: the input, which the layer below has as its output,
/// the output, two views of one tensor, a weight's view, nothing, a small tensor, one of the stream's.
class Hoarder final : public Layer {
 public:
  Hoarder(const std::string& name, std::shared_ptr<Watch> watch)
      : w_(Parameter::whole(name, at::linspace(0.1, 0.9, width, at::kDouble), true)),
        watch_(std::move(watch)) {}

  std::vector<Parameter*> parameters() override { return {&w_}; }

  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) override {
    watch_->look();
    const at::Tensor sines = at::sin(x), y = x + w_.value * sines;
    if (saved.is_recording()) watch_->add(sines);
    saved.push(x);
    saved.push(sines.narrow(1, 0, 100));
    saved.push(sines.narrow(1, 100, width - 100));
    saved.push(w_.value.view({1, width}));
    saved.push({});
    saved.push(at::full({3}, 2.0, at::kDouble));
    saved.push(stream.ids);
    saved.push(y);
    return y;
  }

  at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) override {
    watch_->look();
    const at::Tensor y = saved.pop(), ids = saved.pop(), small = saved.pop(), nothing = saved.pop(),
                     w = saved.pop(), right = saved.pop(), left = saved.pop(), x = saved.pop();
    EXPECT_TRUE(ids.is_same(stream.ids));
    EXPECT_FALSE(nothing.defined());
    EXPECT_EQ(small.sum().item<double>(), 6);
    EXPECT_TRUE(w.is_alias_of(w_.value)) << "a weight was copied";
    EXPECT_TRUE(left.is_alias_of(right));
    const at::Tensor sines = at::cat({left, right}, 1);
    EXPECT_TRUE(at::equal(y, x + w_.value * sines));
    w_.accumulate((dy * sines).sum(0));
    at::Tensor dx = dy * (1 + w * at::cos(x));
    sines.zero_();  // what was popped is the layer's own
    return dx;
  }

 private:
  Parameter w_;
  std::shared_ptr<Watch> watch_;
};

constexpr int num_layers = 8;

struct Toy {
  std::shared_ptr<Watch> watch = std::make_shared<Watch>();
  Chain chain;

  Toy() {
    const auto table = test::toy_weight({11, width}, 0.3, {}, true);
    chain.layers.push_back(std::make_unique<AutogradLayer>(
        [table](const at::Tensor&, const Stream& s) { return table.index_select(0, s.ids); },
        AutogradLayer::NamedTensors{{"table", table}}));
    for (int i = 0; i < num_layers; ++i)
      chain.layers.push_back(std::make_unique<Hoarder>("w" + std::to_string(i), watch));
    chain.objective = std::make_unique<MeanSquaredError>(
        [](const Stream& s) { return at::one_hot(s.targets.clamp_min(0), width).to(at::kDouble); });
  }
};

std::vector<Stream> micro_batches() { return {toy_stream(2), toy_stream(5), toy_stream(8)}; }

struct Walked {
  double loss = 0;
  std::vector<at::Tensor> gradients;
  OffloadTraffic traffic;
  int most = 0;            // layers' tensors in memory
  int64_t most_bytes = 0;  // of all that was saved
};

Walked walk(const EngineOptions& options) {
  Toy toy;
  Layout layout({}, comm::Group());
  Engine engine(toy.chain, layout, options);
  const auto micro = micro_batches();
  Walked walked;
  walked.loss = engine.forward_backward(micro, test::count_trained(micro)).value();
  engine.finish_gradients();
  for (const Slot& slot : engine.slots()) walked.gradients.push_back(slot.grad.clone());
  walked.traffic = engine.offload_traffic();
  walked.most = toy.watch->most();
  walked.most_bytes = toy.watch->most_bytes();
  return walked;
}

class ActivationOffload : public ::testing::TestWithParam<bool> {};

TEST_P(ActivationOffload, GivesTheSameBitsAndMovesEachTensorOnce) {
  const TemporaryFolder folder;
  const bool recompute = GetParam();
  const Walked wanted = walk({.recompute = recompute});
  const Walked found =
      walk({.recompute = recompute, .offload_activations = true, .offload_folder = folder.path()});
  EXPECT_EQ(found.loss, wanted.loss);
  ASSERT_EQ(found.gradients.size(), wanted.gradients.size());
  for (size_t i = 0; i < wanted.gradients.size(); ++i)
    EXPECT_TRUE(at::equal(found.gradients[i], wanted.gradients[i])) << i;
  int64_t tokens = 0;
  for (const Stream& stream : micro_batches()) tokens += stream.num_tokens();
  // Without the last layer. The table's output is the first one's input: autograd holds it, but where it is
  // run again nobody does.
  const int64_t tensors = recompute ? num_layers - 1 : 1 + 2 * (num_layers - 1);
  EXPECT_EQ(found.traffic.bytes_out, tensors * tokens * width * 8);
  EXPECT_EQ(found.traffic.bytes_in, found.traffic.bytes_out);
  EXPECT_EQ(wanted.traffic.bytes_out, 0);
}
INSTANTIATE_TEST_SUITE_P(Recompute, ActivationOffload, ::testing::Bool());

TEST(ActivationOffload, LeavesAFewLayersInMemory) {
  const TemporaryFolder folder;
  host_allocator::install();
  int64_t tokens = 0;
  for (const Stream& stream : micro_batches()) tokens = std::max(tokens, stream.num_tokens());
  const int64_t tensor = tokens * width * 8;
  const Walked all = walk({});
  EXPECT_EQ(all.most, num_layers);
  EXPECT_GE(all.most_bytes, 2 * num_layers * tensor);
  const Walked few = walk({.offload_activations = true, .offload_folder = folder.path()});
  EXPECT_GE(few.most, 1);
  EXPECT_LE(few.most, 2) << "one that is on its way out, and the last layer's";
  // Two layers with two tensors each, one that goes from layer to layer, two that autograd holds.
  EXPECT_LT(few.most_bytes, 7 * tensor + tensor / 2);
}

TEST(ActivationOffload, LeavesNoName) {
  const TemporaryFolder folder;
  Toy toy;
  Layout layout({}, comm::Group());
  const auto micro = micro_batches();
  Engine engine(toy.chain, layout, {.offload_activations = true, .offload_folder = folder.path()});
  engine.forward_backward(micro, test::count_trained(micro));
  EXPECT_TRUE(names_in(folder.path()).empty());
}

/// Slots of 8.6 MB and of 4 and 8 KB, in bf16, so that there are masters too.
struct Slots {
  TemporaryFolder folder;
  Toy toy;
  Layout layout{{}, comm::Group()};
  std::unique_ptr<Engine> engine;
  std::vector<at::Tensor> wanted;

  Slots() {
    Chain chain;
    chain.objective = std::move(toy.chain.objective);
    for (const int64_t rows : {2100, 2, 2100, 1, 2100}) {
      const std::string name = "m" + std::to_string(chain.layers.size());
      const at::Tensor value = at::arange(rows * 1024, at::kFloat).view({rows, 1024}).remainder(251);
      chain.layers.push_back(std::make_unique<Holder>(Parameter::whole(name, value.to(at::kBFloat16), true)));
      wanted.push_back(value);
    }
    toy.chain = std::move(chain);
    engine = std::make_unique<Engine>(
        toy.chain, layout, EngineOptions{.offload_optimizer = true, .offload_folder = folder.path()});
  }

  /// Has a parameter.
  class Holder final : public Layer {
   public:
    explicit Holder(Parameter parameter) : parameter_(std::move(parameter)) {}
    std::vector<Parameter*> parameters() override { return {&parameter_}; }
    at::Tensor forward(const at::Tensor& x, const Stream&, Saved&) override { return x; }
    at::Tensor backward(const at::Tensor& dy, const Stream&, Saved&) override { return dy; }

   private:
    Parameter parameter_;
  };

  /// What the layers see and what a lease does, against `wanted`.
  void expect_wanted() {
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Slot& slot = engine->slots()[i];
      EXPECT_TRUE(at::equal(slot.parameter->value, wanted[i].to(at::kBFloat16))) << i;
      const SlotLease lease(slot);
      EXPECT_TRUE(at::equal(slot.master, wanted[i])) << i;
      for (const auto& [name, tensor] : slot.state) EXPECT_TRUE(at::equal(tensor, wanted[i] + 1)) << i;
    }
  }
};

TEST(OffloadedSlots, KeepWhatVisitsLeaveInThem) {
  Slots slots;
  slots.expect_wanted();
  visit_slots(slots.engine->slots(), SlotUse::read, [](std::span<Slot> some) {
    for (Slot& slot : some) slot.state["moment"] = slot.master + 1;
  });
  slots.expect_wanted();
  visit_slots(slots.engine->slots(), SlotUse::update, [](std::span<Slot> some) {
    for (Slot& slot : some)
      for (at::Tensor* tensor : {&slot.master, &slot.state.at("moment")}) tensor->mul_(2).add_(1);
  });
  for (at::Tensor& value : slots.wanted) value.mul_(2).add_(1);
  for (const Slot& slot : slots.engine->slots()) {
    const SlotLease lease(slot);
    EXPECT_TRUE(at::equal(slot.state.at("moment"), slot.master + 2));
  }
  visit_slots(slots.engine->slots(), SlotUse::overwrite, [&](std::span<Slot> some) {
    for (Slot& slot : some) {
      const auto i = static_cast<size_t>(&slot - slots.engine->slots().data());
      slot.master.copy_(slots.wanted[i].neg_());
      slot.state.at("moment").copy_(slots.wanted[i] + 1);
    }
  });
  slots.expect_wanted();
  visit_slots(slots.engine->slots(), SlotUse::read, [](std::span<Slot>) {});
  slots.expect_wanted();
}

TEST(OffloadedSlots, AreVisitedAFewAtATimeAndAllAtOnceWithout) {
  Slots slots;
  std::vector<size_t> sizes;
  const auto note = [&](std::span<Slot> some) {
    sizes.push_back(some.size());
    int64_t in_memory = 0;
    for (const Slot& slot : slots.engine->slots()) in_memory += slot.master.storage().nbytes() > 0 ? 1 : 0;
    EXPECT_EQ(in_memory, static_cast<int64_t>(some.size()));
  };
  visit_slots(slots.engine->slots(), SlotUse::update, note);
  EXPECT_EQ(sizes, (std::vector<size_t>{1, 2, 2}));
  Toy toy;
  Engine in_memory(toy.chain, slots.layout);
  visit_slots(in_memory.slots(), SlotUse::update,
              [&](std::span<Slot> some) { EXPECT_EQ(some.size(), in_memory.slots().size()); });
}

}  // namespace
}  // namespace duoka::parallel
