// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/shared_linear.h"

#include <utility>

namespace duoka::model {

SharedLinear::SharedLinear(const ParameterSource& source, const std::string& module, int64_t num_out,
                           int64_t num_in, bool has_bias, Split split, std::shared_ptr<const TensorAxis> axis)
    : axis_(std::move(axis)),
      split_(split),
      linear_(source, module, num_out, num_in, has_bias, split, *axis_) {}

at::Tensor SharedLinear::forward(const at::Tensor& x, const Stream& stream, Saved& saved) {
  at::Tensor y = linear_.forward(x, stream, saved);
  if (split_ == Split::inputs && !axis_->is_solo()) axis_->sum_(y);
  return y;
}

at::Tensor SharedLinear::backward(const at::Tensor& dy, const Stream& stream, Saved& saved) {
  at::Tensor dx = linear_.backward(dy, stream, saved);
  if (split_ == Split::outputs && !axis_->is_solo()) axis_->sum_(dx);
  return dx;
}

}  // namespace duoka::model
