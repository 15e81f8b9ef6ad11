// SPDX-License-Identifier: Apache-2.0
#include "core/card_dropout.h"

#include <algorithm>

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include "core/card_dropout_kernel.h"
#include "core/card_launch.h"

namespace duoka {

namespace {

/// On the device, without waiting for it: from pinned memory, which its allocator keeps until the copy is
/// done.
at::Tensor keys_on(at::Device device, const Stream& stream) {
  const auto options = at::TensorOptions(at::kLong);
  const at::Tensor host = at::empty({stream.num_segments()}, options.pinned_memory(true));
  std::ranges::transform(stream.segment_keys, host.mutable_data_ptr<int64_t>(),
                         [](uint64_t key) { return static_cast<int64_t>(key); });
  return host.to(device, /*non_blocking=*/true);
}

}  // namespace

void drop_on_card(const Dropout& dropout, const at::Tensor& x, at::Tensor& y, const Stream& stream,
                  uint32_t threshold) {
  const CardLaunch launch(x);
  const at::Tensor keys = keys_on(x.device(), stream);
  const card::DropoutRows rows{dropout.site_key(),
                               card_data<const int64_t>(keys),
                               card_data<const int32_t>(stream.segments),
                               stream.num_segments(),
                               card_data<const int64_t>(stream.positions),
                               threshold,
                               1 / (1 - dropout.probability())};
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "dropout", [&] {
    card::drop_rows(card_data<const scalar_t>(x), card_data<scalar_t>(y), x.size(0), dropout.first_column(),
                    x.size(1), rows, launch.stream());
  });
}

}  // namespace duoka
