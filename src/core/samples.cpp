// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/samples.h"

#include <algorithm>
#include <numeric>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

namespace duoka {

Stream make_samples(std::span<const int64_t> numbers, at::Device device) {
  const auto n = static_cast<int64_t>(numbers.size());
  at::Tensor ids = at::empty({n}, at::kLong);
  std::ranges::copy(numbers, ids.mutable_data_ptr<int64_t>());
  Stream stream;
  stream.ids = ids.to(device);
  stream.targets = stream.ids;
  stream.positions = at::zeros_like(stream.ids);
  stream.trained = at::arange(n, stream.ids.options());
  stream.segments = at::arange(n + 1, stream.ids.options().dtype(at::kInt));
  stream.segment_offsets.resize(static_cast<size_t>(n) + 1);
  std::iota(stream.segment_offsets.begin(), stream.segment_offsets.end(), int64_t{0});
  stream.segment_keys.assign(numbers.begin(), numbers.end());
  stream.num_trained = n;
  stream.max_segment = n > 0 ? 1 : 0;
  return stream;
}

}  // namespace duoka
