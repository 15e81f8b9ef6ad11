// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/parameter_source.h"

namespace duoka::model {

Parameter ParameterRequest::parameter(at::Tensor value, bool is_trainable) const {
  Parameter parameter = Parameter::whole(name, std::move(value), is_trainable);
  parameter.global_shape = shape;
  if (slice) parameter.offset.at(static_cast<size_t>(slice->dim)) = slice->begin;
  return parameter;
}

at::Tensor cut(const at::Tensor& x, const std::optional<Slice>& slice) {
  return slice ? x.narrow(slice->dim, slice->begin, slice->count).clone(at::MemoryFormat::Contiguous) : x;
}

}  // namespace duoka::model
