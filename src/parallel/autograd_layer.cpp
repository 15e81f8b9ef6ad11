// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/autograd_layer.h"

#include <set>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "duoka/core/error.h"

namespace duoka::parallel {

AutogradLayer::AutogradLayer(Function function, NamedTensors parameters) : function_(std::move(function)) {
  std::set<std::string> names;
  for (auto& [name, tensor] : parameters) {
    if (!tensor.is_floating_point() || !tensor.is_leaf())
      throw StateError("AutogradLayer: " + name +
                       " is not a floating-point leaf tensor; pass the module's own");
    if (!names.insert(name).second) throw StateError("AutogradLayer: two parameters are called " + name);
    // detach() shares the memory: what the optimizer writes is what `function` reads.
    own_.push_back(
        std::make_unique<Parameter>(Parameter::whole(name, tensor.detach(), tensor.requires_grad())));
    used_.push_back(own_.back().get());
    leaves_.push_back(std::move(tensor));
  }
}

void AutogradLayer::tie(AutogradLayer& owner) {
  for (size_t i = 0; i < owner.own_.size(); ++i) {
    used_.push_back(owner.own_[i].get());
    leaves_.push_back(owner.leaves_[i]);
  }
}

std::vector<Parameter*> AutogradLayer::parameters() { return used_; }

at::Tensor AutogradLayer::forward(const at::Tensor& x, const Stream& stream, Saved& saved) {
  if (!saved.is_recording()) {
    const at::NoGradGuard no_grad;
    return function_(x, stream);
  }
  const at::AutoGradMode with_gradients(true);
  at::Tensor input = x;
  if (x.defined() && x.is_floating_point()) input = x.detach().requires_grad_(true);
  at::Tensor y = function_(input, stream);
  saved.push(input);
  saved.push(y);
  return y.detach();
}

at::Tensor AutogradLayer::backward(const at::Tensor& dy, const Stream& /*stream*/, Saved& saved) {
  const at::Tensor y = saved.pop();
  const at::Tensor input = saved.pop();
  const bool has_input = input.defined() && input.requires_grad();

  std::vector<at::Tensor> wanted;
  std::vector<Parameter*> receivers;
  for (size_t i = 0; i < used_.size(); ++i) {
    if (!used_[i]->is_trainable) continue;
    wanted.push_back(leaves_[i]);
    receivers.push_back(used_[i]);
  }
  if (has_input) wanted.push_back(input);
  if (wanted.empty() || !y.requires_grad()) return has_input ? at::zeros_like(input) : at::Tensor();

  const auto gradients = torch::autograd::grad({y}, wanted, {dy}, /*retain_graph=*/false,
                                               /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < receivers.size(); ++i)
    if (gradients[i].defined()) receivers[i]->accumulate(gradients[i]);
  if (!has_input) return {};
  return gradients.back().defined() ? gradients.back() : at::zeros_like(input);
}

}  // namespace duoka::parallel
