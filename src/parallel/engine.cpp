// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/engine.h"

#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "parallel/gradient_buckets.h"
#include "parallel/same_model.h"
#include "parallel/walk.h"

namespace duoka::parallel {

namespace {

std::vector<Slot> make_slots(const Chain& chain, bool is_primary) {
  std::vector<Slot> slots;
  for (Parameter* parameter : chain.parameters()) {
    if (!parameter->is_trainable) continue;
    Slot slot;
    slot.parameter = parameter;
    slot.offset = parameter->offset;
    // The same tensor, not a copy, when the dtype is the gradient's already.
    slot.master = parameter->value.to(parameter->gradient_dtype());
    slot.grad = parameter->grad;
    slot.is_primary = is_primary;
    slots.push_back(std::move(slot));
  }
  return slots;
}

/// The micro-batches that have something to train. The others' gradient is zero: nothing to compute.
std::vector<const Stream*> with_trained_tokens(std::span<const Stream> micro, int64_t trained_tokens) {
  std::vector<const Stream*> useful;
  int64_t total = 0;
  for (const Stream& stream : micro) {
    total += stream.num_trained;
    if (stream.num_trained > 0) useful.push_back(&stream);
  }
  if (trained_tokens < 1 || total > trained_tokens)
    throw StateError(text("forward_backward: trained_tokens = ", trained_tokens,
                          " for the whole update, but this rank alone has ", total,
                          "; it must be the sum over all ranks and micro-batches, at least 1"));
  return useful;
}

}  // namespace

class Engine::Impl {
 public:
  Impl(Chain& chain, comm::Group data, const EngineOptions& options)
      : chain_(chain),
        data_(std::move(data)),
        buckets_(prepared(chain, data_), options.bucket_bytes),
        slots_(make_slots(chain, data_.rank() == 0)) {
    if (slots_.empty())
      throw ConfigError(
          "nothing to train: every parameter is frozen; check finetuning_type and what it selects");
    walk_ = {options.recompute, buckets_.lowest_stage()};
  }

  double forward_backward(std::span<const Stream> micro, int64_t trained_tokens) {
    const at::NoGradGuard no_grad;
    if (buckets_.is_reducing())
      throw StateError("forward_backward() before finish_gradients() of the last one");
    const auto streams = with_trained_tokens(micro, trained_tokens);
    buckets_.zero();

    const double scale = 1.0 / static_cast<double>(trained_tokens);
    double loss_sum = 0;
    for (const Stream* stream : streams) {
      const bool is_last = stream == streams.back();
      loss_sum += walk_forward_backward(chain_, *stream, scale, walk_, [&](int64_t stage) {
        if (is_last) buckets_.start_complete(stage, data_);
      });
    }
    // Without a micro-batch nothing is started yet: send zeros. Otherwise all is.
    buckets_.start_complete(0, data_);
    return loss_sum * scale;
  }

  void finish_gradients() { buckets_.wait(); }

  void publish() {
    const at::NoGradGuard no_grad;
    for (Slot& slot : slots_)
      if (!slot.master.is_same(slot.parameter->value)) slot.parameter->value.copy_(slot.master);
  }

  LossSums evaluate(std::span<const Stream> streams) { return parallel::evaluate(chain_, streams, data_); }

  std::span<Slot> slots() { return slots_; }
  const comm::Group& group() const { return data_; }

 private:
  /// Before gradients are allocated and masters are copied, the ranks must agree.
  static Chain& prepared(Chain& chain, const comm::Group& group) {
    if (!chain.objective) throw StateError("the chain has no objective");
    const at::NoGradGuard no_grad;
    check_same_model(chain.parameters(), group);
    share_trainable_values(chain.parameters(), group);
    return chain;
  }

  Chain& chain_;
  comm::Group data_;
  GradientBuckets buckets_;
  std::vector<Slot> slots_;
  WalkOptions walk_;
};

Engine::Engine(Chain& chain, comm::Group data, EngineOptions options)
    : impl_(std::make_unique<Impl>(chain, std::move(data), options)) {}
Engine::~Engine() = default;

double Engine::forward_backward(std::span<const Stream> micro, int64_t trained_tokens) {
  return impl_->forward_backward(micro, trained_tokens);
}
void Engine::finish_gradients() { impl_->finish_gradients(); }
std::span<Slot> Engine::slots() { return impl_->slots(); }
void Engine::publish() { impl_->publish(); }
LossSums Engine::evaluate(std::span<const Stream> streams) { return impl_->evaluate(streams); }
const comm::Group& Engine::group() const { return impl_->group(); }

}  // namespace duoka::parallel
