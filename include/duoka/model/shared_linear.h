// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "duoka/model/linear.h"

namespace duoka::model {

/// A Linear as a layer of a network of one's own, shared by the ranks of a tensor axis, that sends what has
/// to be sent: column-parallel (Split::outputs) it takes all of x [N, I] and makes this rank's columns of y;
/// row-parallel (Split::inputs) it takes those columns and makes all of y [N, O]. So a row-parallel one
/// undoes a column-parallel one, and what is computed number by number (relu) may stand between them.
///
/// Sends nothing but a sum over the axis: of y in a row-parallel forward, of dx in a column-parallel
/// backward. forward() and backward() are collective over the axis. Parameters of other layers that are whole
/// on each of these ranks would be summed over them, so leave such layers to chains without a tensor axis.
class SharedLinear final : public Layer {
 public:
  /// As Linear's constructor; `split` is outputs or inputs.
  SharedLinear(const ParameterSource& source, const std::string& module, int64_t num_out, int64_t num_in,
               bool has_bias, Split split, std::shared_ptr<const TensorAxis> axis);

  std::vector<Parameter*> parameters() override { return linear_.parameters(); }
  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) override;
  at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) override;

  const Linear& linear() const { return linear_; }

 private:
  std::shared_ptr<const TensorAxis> axis_;
  Split split_;
  Linear linear_;
};

}  // namespace duoka::model
