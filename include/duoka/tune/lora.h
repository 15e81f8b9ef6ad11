// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/dropout.h"
#include "duoka/model/adapter.h"
#include "duoka/model/linear.h"

namespace duoka::tune {

struct LoraConfig {
  int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;  ///< On the adapter's input.
  bool use_rslora =
      false;  ///< Scale alpha / sqrt(rank) (Kalajdzievski, arXiv:2312.03732) in place of alpha / rank.
};

/// Low-rank adapter: y += scale * dropout(x) A^T B^T. A [r, I], B [O, r].
///
/// Both have the dtype of the weight they adapt, as every trainable parameter has the dtype its layer
/// computes in; gradients are f32 (Parameter::gradient_dtype) and the optimizer keeps f32 masters.
/// Names are those peft writes: "base_model.model.<module>.lora_A.weight".
///
/// Over a tensor axis it is sliced as its Linear is: A by columns with the inputs, B by rows with the
/// outputs. The other is whole and gets a partial gradient, see Linear.
///
/// Source: Hu et al., "LoRA", arXiv:2106.09685, section 4.1.
class LoraAdapter final : public model::Adapter {
 public:
  /// An adapter for `linear` (not attached yet). A is uniform in ±1/sqrt(I), which is what peft's Kaiming
  /// initialisation with a = sqrt(5) comes to; B is zero. A depends on `seed` and the module's name alone,
  /// and is rounded from f32; a slice has the numbers that the whole has there. Dropout is keyed by the same
  /// two. On the meta device there are shapes and no numbers. Throws ConfigError for a rank below 1 or above max(O, I), or a dropout outside [0, 1).
  LoraAdapter(const model::Linear& linear, const LoraConfig& config, uint64_t seed);

  std::vector<Parameter*> parameters() override { return {&a_, &b_}; }
  bool needs_input() const override { return a_.is_trainable; }
  /// Keeps x A^T, [N, r].
  void forward(const at::Tensor& x, at::Tensor& y, const Stream& stream, Saved& saved) override;
  /// Where dropout is active makes one [N, I] for the time of the call: the mask is computed again.
  void backward(const at::Tensor& dy, const at::Tensor& x, at::Tensor& dx, const Stream& stream,
                Saved& saved) override;
  at::Tensor delta() const override;

  double scale() const { return scale_; }
  int64_t rank() const { return a_.global_shape[0]; }
  Parameter& a() { return a_; }
  Parameter& b() { return b_; }

 private:
  double scale_;
  Parameter a_, b_;
  Dropout dropout_;
};

}  // namespace duoka::tune
