// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/tensor_axis.h"

#include <algorithm>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::model {

Part part_of(int64_t total, int rank, int size) {
  const int64_t most = (total + size - 1) / size, begin = std::min(most * rank, total);
  return {begin, std::min(most, total - begin)};
}

std::vector<int64_t> TensorAxis::parts(int64_t total) const {
  std::vector<int64_t> counts;
  for (int r = 0; r < size(); ++r) counts.push_back(part_of(total, r, size()).count);
  return counts;
}

std::optional<Slice> TensorAxis::slice(int64_t dim, int64_t total) const {
  if (is_solo()) return std::nullopt;
  const auto [begin, count] = part(total);
  return Slice{dim, begin, count};
}

at::Tensor TensorAxis::gather_tokens(const at::Tensor& x, const Stream& stream) const {
  return is_solo() ? x : gather_rows(x, parts(stream.num_tokens()));
}

at::Tensor TensorAxis::scatter_sum_tokens(const at::Tensor& x, const Stream& stream) const {
  return is_solo() ? x : scatter_sum_rows(x, parts(stream.num_tokens()));
}

namespace {
class SoloAxis final : public TensorAxis {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  at::Tensor gather_rows(const at::Tensor& x, const std::vector<int64_t>&) const override { return x; }
  at::Tensor scatter_sum_rows(const at::Tensor& x, const std::vector<int64_t>&) const override { return x; }
  void sum_(at::Tensor&) const override {}
  void max_(at::Tensor&) const override {}
};
}  // namespace

std::shared_ptr<const TensorAxis> solo_tensor_axis() {
  static const auto solo = std::make_shared<const SoloAxis>();
  return solo;
}

void require_solo(const TensorAxis& axis, const char* what) {
  if (axis.is_solo()) return;
  throw StateError(text(what, " works on a whole model; this one is shared by ", axis.size(),
                        " ranks of tensor parallelism"));
}

}  // namespace duoka::model
