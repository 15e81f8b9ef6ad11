// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/deferred_products.h"

#include <utility>

#include "duoka/core/parameter.h"

namespace duoka {

namespace {
thread_local DeferredProducts* innermost = nullptr;
}

DeferredProducts::Scope::Scope(DeferredProducts& products) : outer_(std::exchange(innermost, &products)) {}
DeferredProducts::Scope::~Scope() { innermost = outer_; }

DeferredProducts* DeferredProducts::current() { return innermost; }

void DeferredProducts::put_off(Parameter& parameter, const at::Tensor& a, const at::Tensor& b) {
  products_.push_back({&parameter, a, b});
}

void DeferredProducts::put_off(std::function<void()> work) {
  Product product;
  product.work = std::move(work);
  products_.push_back(std::move(product));
}

void DeferredProducts::add_all() {
  DeferredProducts* outer = std::exchange(innermost, nullptr);
  // One by one, so that memory falls on the way.
  for (Product& product : products_) {
    if (product.work)
      product.work();
    else
      product.parameter->accumulate_product(product.a, product.b);
    product = {};
  }
  innermost = outer;
  products_.clear();
}

}  // namespace duoka
