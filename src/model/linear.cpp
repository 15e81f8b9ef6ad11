// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/linear.h"

#include "core/matrix_product.h"
#include "duoka/core/error.h"

namespace duoka::model {

namespace {

ParameterRequest weight_of(const std::string& module, int64_t num_out, int64_t num_in, Split split,
                           const TensorAxis& axis) {
  ParameterRequest request{module + ".weight", {num_out, num_in}};
  if (split == Split::outputs) request.slice = axis.slice(0, num_out);
  if (split == Split::inputs) request.slice = axis.slice(1, num_in);
  return request;
}

std::optional<Parameter> bias_of(const ParameterSource& source, const std::string& module, int64_t num_out,
                                 bool has_bias, Split split, const TensorAxis& axis) {
  if (!has_bias) return std::nullopt;
  ParameterRequest request{module + ".bias", {num_out}};
  if (split == Split::outputs) request.slice = axis.slice(0, num_out);
  return source(request);
}

}  // namespace

Linear::Linear(Parameter weight, std::optional<Parameter> bias)
    : weight_(std::move(weight)), bias_(std::move(bias)) {}

Linear::Linear(const ParameterSource& source, const std::string& module, int64_t num_out, int64_t num_in,
               bool has_bias, Split split, const TensorAxis& axis)
    : weight_(source(weight_of(module, num_out, num_in, split, axis))),
      bias_(bias_of(source, module, num_out, has_bias, split, axis)) {}

std::vector<Parameter*> Linear::parameters() {
  std::vector<Parameter*> all{&weight_};
  if (bias_) all.push_back(&*bias_);
  if (adapter_) {
    const auto more = adapter_->parameters();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

bool Linear::needs_input() const { return weight_.is_trainable || (adapter_ && adapter_->needs_input()); }

at::Tensor Linear::project(const at::Tensor& x, const Stream& stream, Saved& saved) {
  const Parameter* bias = added_bias();
  at::Tensor y = affine(x, weight_.value, bias ? std::optional(bias->value) : std::nullopt);
  if (adapter_) adapter_->forward(x, y, stream, saved);
  return y;
}

void Linear::backward_into(const at::Tensor& dy, const at::Tensor& x, const Stream& stream, Saved& saved,
                           at::Tensor& dx) {
  if (dx.defined())
    multiply_into(dx, dy, weight_.value, 1);
  else
    dx = product(dy, weight_.value);
  if (adapter_) adapter_->backward(dy, x, dx, stream, saved);
  if (weight_.is_trainable) weight_.accumulate_product(dy, x);
  Parameter* bias = added_bias();
  if (bias && bias->is_trainable) bias->accumulate(dy.sum(0, false, bias->gradient_dtype()));
}

at::Tensor Linear::apply(const at::Tensor& x) {
  // Not for training: an adapter drops nothing and needs to know no more of the tokens.
  Stream stream;
  stream.is_training = false;
  Saved nothing(false);
  return project(x, stream, nothing);
}

at::Tensor Linear::forward(const at::Tensor& x, const Stream& stream, Saved& saved) {
  at::Tensor y = project(x, stream, saved);
  if (needs_input()) saved.push(x);
  return y;
}

at::Tensor Linear::backward(const at::Tensor& dy, const Stream& stream, Saved& saved) {
  const at::Tensor x = needs_input() ? saved.pop() : at::Tensor();
  at::Tensor dx;
  backward_into(dy, x, stream, saved, dx);
  return dx;
}

void Linear::attach(std::unique_ptr<Adapter> adapter) {
  if (adapter_) throw StateError(module() + " has an adapter already; detach it first");
  adapter_ = std::move(adapter);
}

std::unique_ptr<Adapter> Linear::detach() { return std::move(adapter_); }

std::string Linear::module() const {
  constexpr std::string_view suffix = ".weight";
  const std::string& name = weight_.name;
  return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

}  // namespace duoka::model
