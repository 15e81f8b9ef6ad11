// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace duoka {

struct Parameter;

/// Gradients of weights put off: the products that Parameter::accumulate_product() was to add. A backward
/// then gives the gradient by its input sooner, which another rank may wait for. Not thread-safe.
class DeferredProducts final {
 public:
  /// While it lives, accumulate_product() on this thread puts its product off to `products`. Scopes nest.
  class [[nodiscard]] Scope final {
   public:
    explicit Scope(DeferredProducts& products);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DeferredProducts* outer_;
  };
  /// Of the innermost scope on this thread; null outside of any.
  static DeferredProducts* current();

  /// Keeps both operands alive; nobody may change them until add_all().
  void put_off(Parameter& parameter, const at::Tensor& a, const at::Tensor& b);
  /// For a layer whose gradient of weights is no product: `work` adds it.
  void put_off(std::function<void()> work);
  /// Adds them in the order in which they were put off, and forgets them. Each parameter must be alive.
  void add_all();

 private:
  struct Product {
    Parameter* parameter = nullptr;
    at::Tensor a, b;
    std::function<void()> work = nullptr;  ///< In place of the others.
  };
  std::vector<Product> products_;
};

}  // namespace duoka
