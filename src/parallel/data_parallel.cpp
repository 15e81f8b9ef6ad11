// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/data_parallel.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/parallel/layout.h"
#include "parallel/gradient_sums.h"
#include "parallel/make_slots.h"
#include "parallel/row_publisher.h"
#include "parallel/same_model.h"
#include "parallel/update_steps.h"

namespace duoka::parallel {

namespace {

/// A parameter as a stage of a chain that is never walked: the sums of gradients know stages, which become
/// complete from the last to the first.
class Leaf final : public Layer {
 public:
  Leaf(const std::string& name, const at::Tensor& tensor)
      // detach() shares the memory: what the optimizer writes is what the module reads.
      : tensor_(tensor), parameter_(Parameter::whole(name, tensor.detach(), tensor.requires_grad())) {}

  std::vector<Parameter*> parameters() override { return {&parameter_}; }
  at::Tensor forward(const at::Tensor&, const Stream&, Saved&) override { return no_walk(); }
  at::Tensor backward(const at::Tensor&, const Stream&, Saved&) override { return no_walk(); }

  const at::Tensor& tensor() const { return tensor_; }
  Parameter& parameter() { return parameter_; }

 private:
  [[noreturn]] static at::Tensor no_walk() { throw StateError("a parameter of DataParallel was walked"); }

  at::Tensor tensor_;
  Parameter parameter_;
};

/// Called by autograd when a tensor's gradient of one backward is complete.
class Arrival final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Arrival(std::function<void()> tell) : tell_(std::move(tell)) {}
  void operator()(const at::Tensor&) override { tell_(); }

 private:
  std::function<void()> tell_;
};

void check_tensors(const DataParallel::NamedTensors& parameters) {
  for (auto it = parameters.begin(); it != parameters.end(); ++it) {
    const auto& [name, tensor] = *it;
    if (!tensor.defined() || !tensor.is_floating_point() || !tensor.is_leaf())
      throw StateError("DataParallel: " + name +
                       " is not a floating-point leaf tensor; pass the module's own");
    if (tensor.requires_grad() && torch::autograd::impl::post_acc_grad_hooks(tensor) != nullptr)
      throw StateError("DataParallel: " + name +
                       " has a post-accumulate hook already, of another DataParallel?");
    for (auto other = parameters.begin(); other != it; ++other) {
      if (other->first == name) throw StateError("DataParallel: two parameters are called " + name);
      if (other->second.is_same(tensor))
        throw StateError(
            text("DataParallel: ", other->first, " and ", name, " are the same tensor; pass it once"));
    }
  }
}

void check_plan(const Layout& layout, const EngineOptions& options) {
  const Plan& plan = layout.plan();
  if (plan.tensor > 1 || plan.context > 1 || plan.pipeline > 1 || plan.zero_stage > 2)
    throw ConfigError(text("DataParallel: found the layout ", describe(plan),
                           "; a network that is no chain takes ",
                           "data ranks with zero_stage 0, 1 or 2. Make it a chain of AutogradLayers"));
  if (options.recompute)
    throw StateError("DataParallel: recompute is for chains; use a checkpoint inside the module");
}

}  // namespace

class DataParallel::Impl {
 public:
  Impl(const NamedTensors& parameters, Layout& layout, const EngineOptions& options)
      : layout_(layout), exact_(options.exact) {
    check_plan(layout, options);
    check_tensors(parameters);
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : parameters) {
      auto leaf = std::make_unique<Leaf>(name, tensor);
      leaves_.push_back(leaf.get());
      chain_.layers.push_back(std::move(leaf));
    }
    const std::vector<Parameter*> trainable = trainable_of(chain_);
    if (trainable.empty()) throw ConfigError("DataParallel: no parameter requires a gradient");
    check_same_model(chain_.parameters(), layout.world());
    share_trainable_values(chain_.parameters(), layout.world());

    const LayerRange stages{0, static_cast<int64_t>(leaves_.size()) + 1};
    const SumGroups& groups = layout.sum_groups();
    sums_ = make_gradient_sums(chain_, stages, groups, options.bucket_bytes, layout.plan().zero_stage == 2,
                               exact_);
    owned_ =
        make_slots(chain_, groups, nullptr, [&](Parameter& parameter) { return sums_->sum_of(parameter); });
    if (groups.shard.size() > 1) publisher_ = std::make_unique<RowPublisher>(trainable, groups.shard);
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (leaves_[i]->parameter().is_trainable)
        torch::autograd::impl::set_post_acc_grad_hooks(
            leaves_[i]->tensor(), std::make_unique<Arrival>([this, i] { take_gradient(i); }));
  }

  ~Impl() {
    for (const Leaf* leaf : leaves_)
      if (leaf->tensor().requires_grad())
        torch::autograd::impl::set_post_acc_grad_hooks(leaf->tensor(), nullptr);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ExactSum forward_backward(int64_t num_micro, int64_t num_samples, const LossSum& loss_sum) {
    if (sums_->is_under_way())
      throw StateError("forward_backward() before finish_gradients() of the last one");
    if (num_micro < 0 || num_samples < 1)
      throw StateError(text("forward_backward: ", num_micro, " micro-batches here, ", num_samples,
                            " samples in the whole update; wanted 0 and 1 at least"));
    for (const Leaf* leaf : leaves_) leaf->tensor().mutable_grad().reset();
    int64_t num_steps = std::max<int64_t>(1, num_micro);
    if (sums_->talks_each_step()) num_steps = agreed_count(num_steps, layout_.world());
    const auto order = order_of_steps(num_steps, exact_);
    ExactSum total;
    for (size_t i = 0; i < order.size(); ++i) {
      begin_step({i + 1 == order.size(), order[i].num_additions});
      if (order[i].leaf < num_micro)
        total.add(walk(loss_sum, order[i].leaf, 1.0 / static_cast<double>(num_samples)));
      end_step();
    }
    return total;
  }

  void finish_gradients() {
    const at::NoGradGuard no_grad;
    sums_->finish();
    if (layout_.sum_groups().shard.size() > 1) return;
    for (Leaf* leaf : leaves_) {
      if (!leaf->parameter().is_trainable) continue;
      const at::Tensor sum = sums_->sum_of(leaf->parameter());
      if (sum.scalar_type() == leaf->tensor().scalar_type()) leaf->tensor().mutable_grad() = sum;
    }
  }

  void publish() {
    const at::NoGradGuard no_grad;
    owned_.make_visible();
    if (publisher_) publisher_->publish();
  }

  std::span<Slot> slots() { return owned_.slots; }
  const comm::Group& group() const { return layout_.world(); }

 private:
  static double walk(const LossSum& loss_sum, int64_t micro, double scale) {
    const at::AutoGradMode with_gradients(true);
    const at::Tensor loss = loss_sum(micro);
    if (!loss.defined() || loss.numel() != 1)
      throw StateError("DataParallel: the loss of a micro-batch is not one number; sum it over its samples");
    if (loss.requires_grad()) torch::autograd::backward({loss}, {at::full_like(loss, scale)});
    return loss.item<double>();
  }

  void begin_step(const MicroStep& step) {
    const at::NoGradGuard no_grad;
    sums_->begin_step(step);
    has_arrived_.clear();
    for (Leaf* leaf : leaves_) has_arrived_.push_back(!leaf->parameter().is_trainable);
    first_complete_ = leaves_.size();
    is_walking_ = true;
  }

  /// What was not used in this micro-batch is complete now.
  void end_step() {
    const at::NoGradGuard no_grad;
    is_walking_ = false;
    sums_->complete(0);
  }

  /// On a thread of autograd: of the device that computes, so one at a time, but another one for each device.
  void take_gradient(size_t i) {
    const std::lock_guard lock(mutex_);
    if (!is_walking_) return;  // a backward of the caller's own
    const at::NoGradGuard no_grad;
    at::Tensor& gradient = leaves_[i]->tensor().mutable_grad();
    leaves_[i]->parameter().accumulate(gradient);
    gradient.reset();
    has_arrived_[i] = true;
    // Sums start in one order on every rank, whatever the order in which gradients arrive.
    while (first_complete_ > 0 && has_arrived_[first_complete_ - 1]) --first_complete_;
    sums_->complete(static_cast<int64_t>(first_complete_));
  }

  Layout& layout_;
  bool exact_;
  Chain chain_;
  std::vector<Leaf*> leaves_;  // the chain's
  std::unique_ptr<GradientSums> sums_;
  OwnedSlots owned_;
  std::unique_ptr<RowPublisher> publisher_;
  std::mutex mutex_;
  bool is_walking_ = false;
  std::vector<bool> has_arrived_;
  size_t first_complete_ = 0;  // this parameter and those behind it have arrived
};

DataParallel::DataParallel(const NamedTensors& parameters, Layout& layout, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(parameters, layout, options)) {}
DataParallel::~DataParallel() = default;

ExactSum DataParallel::forward_backward(int64_t num_micro, int64_t num_samples, const LossSum& loss_sum) {
  return impl_->forward_backward(num_micro, num_samples, loss_sum);
}
void DataParallel::finish_gradients() { impl_->finish_gradients(); }
std::span<Slot> DataParallel::slots() { return impl_->slots(); }
void DataParallel::publish() { impl_->publish(); }
const comm::Group& DataParallel::group() const { return impl_->group(); }

}  // namespace duoka::parallel
