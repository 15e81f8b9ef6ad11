// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "duoka/core/layer.h"

namespace duoka::parallel {

/// The objective of a regression: per trained token the mean over D of (x - wanted)^2, summed over tokens.
/// For networks of one's own (AutogradLayer); language models have theirs in model/.
class MeanSquaredError final : public Objective {
 public:
  /// Gives what is wanted for each token of a stream, [N, D].
  using Wanted = std::function<at::Tensor(const Stream& stream)>;
  explicit MeanSquaredError(Wanted wanted) : wanted_(std::move(wanted)) {}

  std::vector<Parameter*> parameters() override { return {}; }
  double loss_sum(const at::Tensor& x, const Stream& stream) override;
  Share loss_and_gradient(const at::Tensor& x, const Stream& stream, double scale) override;

 private:
  Wanted wanted_;
};

}  // namespace duoka::parallel
