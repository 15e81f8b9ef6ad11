// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/parameter.h"

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include "core/matrix_product.h"
#include "core/tensor_bytes.h"
#include "duoka/core/deferred_products.h"
#include "duoka/core/error.h"
#include "duoka/core/host_allocator.h"
#include "duoka/core/text.h"

namespace duoka {

Parameter Parameter::whole(std::string name, at::Tensor value, bool is_trainable) {
  Parameter parameter;
  parameter.name = std::move(name);
  parameter.global_shape = value.sizes().vec();
  parameter.offset.assign(parameter.global_shape.size(), 0);
  parameter.is_trainable = is_trainable;
  parameter.has_weight_decay = value.dim() >= 2;
  parameter.value = std::move(value);
  return parameter;
}

at::ScalarType Parameter::gradient_dtype() const {
  const auto dtype = value.scalar_type();
  return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype;
}

bool Parameter::is_whole() const { return value.sizes() == at::IntArrayRef(global_shape); }

void Parameter::release() {
  if (is_released()) return;
  if (!value.is_contiguous() || value.storage().nbytes() != value.nbytes())
    throw StateError("the memory of " + name + " holds more than it; it cannot be given back");
  take_bytes(value);
}

at::Tensor Parameter::restore() {
  if (value.numel() == 0) return value;
  if (!is_released()) throw StateError("restore() of " + name + ", whose memory is there");
  give_bytes(value, at::empty({static_cast<int64_t>(value.nbytes())}, value.options().dtype(at::kByte)));
  return at::from_blob(value.data_ptr(), value.sizes(), value.options());
}

bool Parameter::is_released() const { return !has_bytes(value); }

namespace {
void prepare(Parameter& parameter) {
  if (!parameter.is_trainable) throw StateError("gradient for frozen parameter " + parameter.name);
  if (parameter.grad.defined()) return;
  const MemoryScope scope(MemoryClass::gradients);
  parameter.grad =
      at::zeros(parameter.value.sizes(), parameter.value.options().dtype(parameter.gradient_dtype()));
}

/// What is not rows needs all of them.
void prepare_whole(Parameter& parameter) {
  prepare(parameter);
  if (!parameter.grad.is_sparse()) return;
  const MemoryScope scope(MemoryClass::gradients);
  parameter.grad = parameter.grad.to_dense();
}

/// `some` and further rows.
at::Tensor with_rows(const at::Tensor& some, const at::Tensor& ids, const at::Tensor& rows) {
  const MemoryScope scope(MemoryClass::gradients);
  return at::_sparse_coo_tensor_unsafe(at::cat({some._indices(), ids.to(at::kLong).unsqueeze(0)}, 1),
                                       at::cat({some._values(), rows}), some.sizes());
}
}  // namespace

void Parameter::accumulate(const at::Tensor& g) {
  prepare_whole(*this);
  if (g.sizes() != grad.sizes())  // add_ would spread a smaller one out
    throw StateError(
        text("gradient of shape ", g.sizes(), " for parameter ", name, " of shape ", grad.sizes()));
  grad.add_(g);
}

void Parameter::accumulate_product(const at::Tensor& a, const at::Tensor& b) {
  prepare_whole(*this);
  if (DeferredProducts* later = DeferredProducts::current()) {
    later->put_off(*this, a, b);
    return;
  }
  if (a.scalar_type() == grad.scalar_type() && b.scalar_type() == grad.scalar_type())
    multiply_into(grad, a.t(), b, 1);
  else
    accumulate(
        product(a.t(), b));  // half-precision operands: the product is rounded once, the sum stays in f32
}

void Parameter::accumulate_rows(const at::Tensor& ids, const at::Tensor& rows) {
  prepare(*this);
  const at::Tensor wide = rows.to(grad.scalar_type());
  if (grad.is_sparse())
    grad = with_rows(grad, ids, wide);
  else
    grad.index_add_(0, ids, wide);
}

}  // namespace duoka
