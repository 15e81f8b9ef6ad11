// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/layer.h"

namespace duoka::model {

/// y = x / sqrt(mean(x^2) + eps) * w, over the last dim. x [..., D], w [D].
/// All arithmetic in f32 for half types (double for double), rounded once at the end.
/// Source: Zhang and Sennrich, "Root mean square layer normalization", NeurIPS 2019, eq. 4.
class RmsNorm final : public Layer {
 public:
  /// `plus_one`: the stored weight is the factor minus one (Gemma); the one is added in f32.
  RmsNorm(Parameter weight, double eps, bool plus_one = false);

  std::vector<Parameter*> parameters() override { return {&weight_}; }
  /// Keeps x (the handle) and 1/rms, one number a row.
  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) override;
  at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) override;

  /// The function alone, for evaluation: nothing is kept.
  at::Tensor apply(const at::Tensor& x) const;

  Parameter& weight() { return weight_; }
  double eps() const { return eps_; }

 private:
  Parameter weight_;
  double eps_;
  bool plus_one_;
};

}  // namespace duoka::model
